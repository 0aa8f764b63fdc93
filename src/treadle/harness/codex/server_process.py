"""The process of an app-server.

Owns the command that starts it, its start in a session of its own, the last lines of its
standard error, and its end. Invariants: secrets are in the environment only, and nothing
that is shown contains one; when `end` returns, no process that the server started is
left. Where there is no ``/proc``, orphans in other sessions cannot be found.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from ...core.ids import new_id
from ...engines.words import brief
from .errors import AppServerDied, CodexMissing

__all__ = ["ORPHAN_MARK", "ServerCommand", "ServerProcess", "kill_orphans"]

ORPHAN_MARK = "TREADLE_APP_SERVER"
"""The variable that all processes of an app-server inherit; its value names the server."""

_BUFFER = 1 << 20
_LINES_KEPT = 20
_LONGEST_LINE = 4096

_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_TRACE = re.compile(r"Stack backtrace:|\d+: |at ")
"""The beginning of lines of a backtrace."""


class ServerCommand(Struct, frozen=True, kw_only=True):
    """The command that starts an app-server: `binary` with `arguments`, in `directory`."""

    binary: Path
    arguments: tuple[str, ...] = ("app-server",)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    directory: Path | None = None
    secrets: tuple[str, ...] = ()
    """Values of the environment that must not be shown."""

    def scrub(self, text: str) -> str:
        """Return `text` as one short line, without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "…") if secret else text
        return brief(text)

    def __repr__(self) -> str:
        return f"ServerCommand({str(self.binary)!r}, {len(self.environment)} variables)"


@dataclass(eq=False, slots=True)
class ServerProcess:
    """A running app-server with pipes to its standard streams."""

    command: ServerCommand
    child: asyncio.subprocess.Process
    name: str
    """The value of the mark that the processes of the server inherit."""
    stderr_lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    """The last lines of its standard error, without secrets."""
    _stderr_task: asyncio.Task[None] | None = None
    _ended: bool = False

    @classmethod
    async def start(cls, command: ServerCommand) -> ServerProcess:
        """Start the process. Raises `CodexMissing` if it cannot be run."""
        name = new_id("app")
        try:
            child = await asyncio.create_subprocess_exec(
                str(command.binary),
                *command.arguments,
                cwd=command.directory,
                env={**command.environment, ORPHAN_MARK: name},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # Treadle handles Ctrl-C in a terminal; the server must not get it.
                start_new_session=True,
                limit=_BUFFER,
            )
        except OSError as error:
            raise CodexMissing.because(command.binary, error) from error
        process = cls(command, child, name)
        process._stderr_task = asyncio.create_task(process._read_stderr(), name="codex stderr")
        return process

    @property
    def reader(self) -> asyncio.StreamReader:
        """Return its standard output."""
        assert self.child.stdout is not None
        return self.child.stdout

    @property
    def writer(self) -> asyncio.StreamWriter:
        """Return its standard input."""
        assert self.child.stdin is not None
        return self.child.stdin

    async def end(self, grace: float = 1.0) -> AppServerDied:
        """End the process: close its input, then terminate it, then kill it."""
        if not self._ended:
            try:
                await self._end_gently(grace)
            finally:
                # Its children may outlive it in its group. Later its pid may belong to another.
                self._signal(signal.SIGKILL)
                self._ended = True
            await asyncio.to_thread(kill_orphans, self.name)
        await self._wait_for_exit(grace)
        await self._finish_stderr()
        last = self.stderr_lines[-1] if self.stderr_lines else ""
        return AppServerDied(self.child.returncode, last)

    async def _end_gently(self, grace: float) -> None:
        with suppress(OSError):
            self.writer.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._wait_for_exit(grace):
                return
            self._signal(number)

    async def _wait_for_exit(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.child.wait()
        except TimeoutError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)

    async def _finish_stderr(self) -> None:
        if self._stderr_task is not None:
            await asyncio.wait({self._stderr_task}, timeout=0.5)
            self._stderr_task.cancel()

    async def _read_stderr(self) -> None:
        assert self.child.stderr is not None
        rest = b""
        while chunk := await self.child.stderr.read(_LONGEST_LINE):
            *lines, rest = (rest + chunk).split(b"\n")
            self._keep_lines(lines)
            rest = rest[-_LONGEST_LINE:]
        self._keep_lines([rest])

    def _keep_lines(self, lines: list[bytes]) -> None:
        for line in lines:
            text = self.command.scrub(_COLOURS.sub("", line.decode(errors="replace")))
            if text and not _TRACE.match(text):
                self.stderr_lines.append(text)


def kill_orphans(name: str, processes: Path = Path("/proc")) -> None:
    """Kill every process that carries the mark of the app-server `name`.

    A server that is killed while it starts a command leaves its helper waiting for ever,
    in a session and a group of its own.
    """
    mark = f"{ORPHAN_MARK}={name}".encode()
    for place in processes.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)
