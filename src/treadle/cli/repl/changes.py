"""Changes: what `/diff` shows.

Invariant: where git cannot run in the sandbox, the patches of the thread are shown instead.
"""

from __future__ import annotations

import msgspec

from ...core.errors import SandboxUnavailable
from ...core.home import home as default_home
from ...core.items import CustomToolCall, FunctionCall
from ...thread.thread import Thread
from ...tools.call_text import patch_in
from ...tools.local.local_executor import LocalExecutor
from ...workspace.sandboxed_git import SandboxedGit

__all__ = ["changes"]

_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--")
_NEW = ("ls-files", "--others", "--exclude-standard")


async def changes(thread: Thread) -> str:
    """Return the changes since the last commit; without a repository, the thread's patches."""
    executor = LocalExecutor(home=thread.log.setup.home or default_home())
    git = SandboxedGit(executor, thread.log.setup.cwd)
    try:
        tracked = await git.ask(*_DIFF)
        new = await (_first_files(git) if tracked is None else git.ask(*_NEW))
    except (OSError, SandboxUnavailable) as error:
        return f"git was not asked: {error}\n{await _patches(thread)}"
    finally:
        await executor.close()
    if new is None:
        return await _patches(thread)
    return (tracked or "") + "".join(f"+++ new file {name}\n" for name in new.splitlines())


async def _first_files(git: SandboxedGit) -> str | None:
    """Return the files of a repository without a commit: there, every file is new."""
    if await git.ask("rev-parse", "--quiet", "--verify", "HEAD") is not None:
        return None
    return await git.ask(*_NEW, "--cached")


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
