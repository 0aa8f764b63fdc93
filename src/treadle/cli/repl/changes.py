"""Changes: what `/diff` shows.

Invariant: git runs in the sandbox, where nothing can be written and nothing reached, because
a repository names programs that git runs: filters, drivers, monitors. Without a sandbox it
does not run.
"""

from __future__ import annotations

import msgspec

from ...core.errors import SandboxUnavailable
from ...core.home import home as default_home
from ...core.items import CustomToolCall, FunctionCall
from ...sandbox.policy import SandboxPolicy
from ...thread.thread import Thread
from ...tools.executor import Bounds, ProcessSpec, ToolExecutor
from ...tools.local.local_executor import LocalExecutor
from ..activity import patch_in

__all__ = ["changes"]

_GIT = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"),
)
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--")
_NEW = ("ls-files", "--others", "--exclude-standard")
_QUIETLY = ("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh")


async def changes(thread: Thread) -> str:
    """Return the changes since the last commit; without a repository, the thread's patches."""
    executor = LocalExecutor(home=thread.log.setup.home or default_home())
    try:
        tracked = await _git(executor, thread, *_DIFF)
        new = None if tracked is None else await _git(executor, thread, *_NEW)
    except (OSError, SandboxUnavailable) as error:
        return f"git was not asked: {error}\n{await _patches(thread)}"
    finally:
        await executor.close()
    if tracked is None:
        return await _patches(thread)
    return tracked + "".join(f"+++ new file {name}\n" for name in (new or "").splitlines())


async def _git(executor: ToolExecutor, thread: Thread, *args: str) -> str | None:
    cwd = thread.log.setup.cwd
    bounds = Bounds(policy=SandboxPolicy(mode="read-only"), workspace=cwd)
    process = await executor.start(
        ProcessSpec(argv=(*_QUIETLY, *_GIT, *args), cwd=cwd, bounds=bounds)
    )
    out = b"".join([data async for data in process.output()])
    return out.decode(errors="replace") if await process.wait() == 0 else None


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
