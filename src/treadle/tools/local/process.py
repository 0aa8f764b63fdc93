"""One running process of this machine.

Owns it from its start until it is reaped. Invariant: its number is ours while we
signal it, because it is reaped last; and once `wait` returns, nothing that it
started is left.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from ...sandbox.launch import Launch
from .remains import MARK, clear
from .spawn import Spawned
from .streams import Stream, ready

__all__ = ["LocalProcess"]


class LocalProcess:
    """A process, its session and its output. Made by `LocalExecutor.start`."""

    def __init__(
        self, spawned: Spawned, launch: Launch, *, tty: bool, gone: Callable[[LocalProcess], None]
    ) -> None:
        self._pid, self._watch = spawned.pid, spawned.watch
        self._stream = Stream(spawned.stream)
        self._launch, self._tty, self._gone = launch, tty, gone
        self._end = asyncio.create_task(self._see_it_through())

    async def output(self) -> AsyncIterator[bytes]:
        """What it writes, until it ends."""
        while data := await self._stream.read():
            yield data
        self._let_go()

    async def write(self, data: bytes) -> None:
        """Type into its terminal."""
        if not self._tty:
            raise BrokenPipeError(errno.EPIPE, "the process was started without a terminal")
        await self._stream.write(data)

    async def wait(self) -> int:
        """Its exit code."""
        return await asyncio.shield(self._end)

    async def kill(self) -> None:
        """End it and all that it started."""
        if not self._end.done():
            self._signal_session()
            await asyncio.shield(self._end)
        self._let_go()

    async def _see_it_through(self) -> int:
        try:
            await ready(self._watch)
            self._signal_session()
            await clear(self._launch.env[MARK])
        finally:
            # Cancelled with the loop: it must end with us, whatever it is doing.
            self._signal_session()
            code = self._reap()
            self._launch.close()
            self._stream.end()
        return code

    def _let_go(self) -> None:
        """The output has been read or given up; nothing is held any more."""
        self._stream.close()
        self._gone(self)

    def _reap(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        os.close(self._watch)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _signal_session(self) -> None:
        """End what did not leave the process group; the rest carries our mark."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
