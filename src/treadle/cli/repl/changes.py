"""Changes: what `/diff` shows.

Invariant: git is asked in a way that runs no program a repository names.
"""

from __future__ import annotations

import asyncio
import shutil

import msgspec

from ...core.items import CustomToolCall, FunctionCall
from ...thread.thread import Thread
from ..activity import patch_in

__all__ = ["changes"]

_GIT = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat")
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--")
_NEW = ("ls-files", "--others", "--exclude-standard")


async def changes(thread: Thread) -> str:
    """Return the changes since the last commit; without a repository, the thread's patches."""
    tracked = await _git(thread, *_DIFF)
    if tracked is None:
        return await _patches(thread)
    new = await _git(thread, *_NEW) or ""
    return tracked + "".join(f"+++ new file {name}\n" for name in new.splitlines())


async def _git(thread: Thread, *args: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    process = await asyncio.create_subprocess_exec(
        git,
        *_GIT,
        *args,
        cwd=thread.log.setup.cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    return out.decode(errors="replace") if process.returncode == 0 else None


async def _patches(thread: Thread) -> str:
    found = []
    for entry in await thread.store.read(thread.id, 1, thread.view.upto):
        try:
            item = entry.item if entry.kind == "item" else None
        except msgspec.DecodeError:
            continue
        match item:
            case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
                found.append(patch_in(name, given))
    return "\n".join(filter(None, found))
