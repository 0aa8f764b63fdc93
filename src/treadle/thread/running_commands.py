"""The commands that a thread has running: listed and stopped by its host.

Owns who may be stopped: commands of this thread. Invariant: the model hears of it as of any
command that has ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..core.errors import NotFound

if TYPE_CHECKING:
    from ..tools.local.running import RunningCommand

__all__ = ["ThreadProcesses"]


class ThreadProcesses:
    """The running commands of one thread on this machine."""

    def __init__(self, thread: str) -> None:
        self._thread = thread

    async def list(self) -> list[RunningCommand]:
        """Return the commands that run now, the oldest first."""
        from ..tools.local.running import find_running

        return await asyncio.to_thread(find_running, self._thread)

    async def stop(self, pid: int) -> None:
        """Kill a command and all that it started. Raises `NotFound`."""
        from ..tools.local.running import stop_running

        for command in await self.list():
            if command.pid == pid:
                await stop_running(command)
                return
        raise NotFound("running command", pid, "`list` returns those that run")
