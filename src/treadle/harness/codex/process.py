"""A running app-server process.

Owns its start in a session of its own, the last lines of its standard error and its
end. Invariant: when `end` returns, no process that it started is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from ...core.ids import new_id
from ...core.patterns import regex
from .errors import AppServerDied, CodexMissing
from .launch import ServerCommand
from .strays import ORPHAN_MARK, kill_orphans

__all__ = ["ServerProcess"]

_BUFFER = 1 << 20
_LINES_KEPT = 20
_LONGEST_COMPLAINT = 4096

_COLOURS = regex(r"\x1b\[[\d;]*m")
_TRACE = regex(r"Stack backtrace:|\d+: |at ")
"""How the lines begin that only tell where in its source the server was."""


@dataclass(eq=False, slots=True)
class ServerProcess:
    """An app-server with pipes to its standard streams."""

    command: ServerCommand
    child: asyncio.subprocess.Process
    name: str
    """What the processes that it starts are known by."""
    stderr_lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    """The last lines it wrote to standard error, without secrets."""
    _listening: asyncio.Task[None] | None = None
    _over: bool = False

    @classmethod
    async def start(cls, launch: ServerCommand) -> ServerProcess:
        """Start it. Raises `CodexMissing` where it cannot be run."""
        name = new_id("app")
        try:
            child = await asyncio.create_subprocess_exec(
                str(launch.binary),
                *launch.arguments,
                cwd=launch.directory,
                env={**launch.environment, ORPHAN_MARK: name},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # Ctrl-C in a terminal is ours to handle, not the server's.
                start_new_session=True,
                limit=_BUFFER,
            )
        except OSError as error:
            raise CodexMissing.because(launch.binary, error) from error
        process = cls(launch, child, name)
        process._listening = asyncio.create_task(process._listen(), name="codex stderr")
        return process

    @property
    def reader(self) -> asyncio.StreamReader:
        """Its standard output."""
        assert self.child.stdout is not None
        return self.child.stdout

    @property
    def writer(self) -> asyncio.StreamWriter:
        """Its standard input."""
        assert self.child.stdin is not None
        return self.child.stdin

    async def end(self, grace: float = 1.0) -> AppServerDied:
        """See that it is gone: by closing its input, then politely, then by force."""
        if not self._over:
            try:
                await self._end_gently(grace)
            finally:
                # Its children may outlive it in its group. Later its number may be another's.
                self._signal(signal.SIGKILL)
                self._over = True
            await asyncio.to_thread(kill_orphans, self.name)
        await self._ends_within(grace)
        await self._hear_the_rest()
        return AppServerDied(
            self.child.returncode, self.stderr_lines[-1] if self.stderr_lines else ""
        )

    async def _end_gently(self, grace: float) -> None:
        with suppress(OSError):
            self.writer.close()
        for last in (signal.SIGTERM, signal.SIGKILL):
            if await self._ends_within(grace):
                return
            self._signal(last)

    async def _ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.child.wait()
        except TimeoutError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)

    async def _hear_the_rest(self) -> None:
        if self._listening is not None:
            await asyncio.wait({self._listening}, timeout=0.5)
            self._listening.cancel()

    async def _listen(self) -> None:
        assert self.child.stderr is not None
        rest = b""
        while chunk := await self.child.stderr.read(_LONGEST_COMPLAINT):
            *lines, rest = (rest + chunk).split(b"\n")
            self._keep(lines)
            rest = rest[-_LONGEST_COMPLAINT:]
        self._keep([rest])

    def _keep(self, lines: list[bytes]) -> None:
        for line in lines:
            said = self.command.scrub(_COLOURS.sub("", line.decode(errors="replace")))
            if said and not _TRACE.match(said):
                self.stderr_lines.append(said)
