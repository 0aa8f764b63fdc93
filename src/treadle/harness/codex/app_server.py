"""The app-server: one process for many threads, started when it is needed.

Owns the command that starts it, its process in a session of its own, the handshake, the
check of its version, the restart after a crash and the end. Invariants: at most one process
lives at a time, and `connection` returns one that works or raises a typed error; secrets
are in the environment only; when `end` returns, no process that the server started is
left. Where there is no ``/proc``, orphans in other sessions cannot be found.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import msgspec
from msgspec import Struct

from ...core.ids import new_id
from ...core.marked_processes import kill_marked
from ...core.redact import one_line
from ...models.retry import Backoff
from .errors import (
    AppServerDied,
    AppServerUnavailable,
    CodexMissing,
    Disconnected,
    RequestTimeout,
    UnsupportedCodex,
)
from .protocol.client_requests import ClientCapabilities, ClientInfo, Initialize
from .protocol.notifications import UNWANTED, Notification
from .server_connection import REQUEST_SECONDS, AppServerConnection, NotificationListener
from .version import SUPPORTED_VERSIONS, Version, VersionRange, version_problem

__all__ = [
    "ORPHAN_MARK",
    "AppServer",
    "RestartPolicy",
    "ServerCommand",
    "ServerProcess",
]

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
        return one_line(text)

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
            # One that is killed while it starts a command leaves its helper waiting for ever,
            # in a session and a group of its own.
            await kill_marked(ORPHAN_MARK, self.name)
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


def _own_version() -> str:
    # The top package imports every layer, so no layer imports it at the top.
    return str(import_module("treadle").__version__)


def _ignore(_: Notification) -> None:
    """Do nothing with a notification."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a server that died is started again, and when Treadle stops trying for a while."""

    limit: int = 5
    """Quick deaths in a row after which no start is tried for a while."""
    steady_seconds: float = 10.0
    """A process that lived so long did not die quickly."""
    pause_seconds: float = 60.0
    """How long no start is tried."""
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.2, jitter=0.2))


@dataclass(eq=False)
class AppServer:
    """A supervised `codex app-server`.

    `connection()` starts a process, or another one if it has died. The `generation` of
    the connection changes with each process: threads of an older one must be opened again.
    `listener` receives the notifications that belong to no thread.
    """

    command: ServerCommand
    listener: NotificationListener = _ignore
    supported: VersionRange = SUPPORTED_VERSIONS
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)
    start_seconds: float = 30.0
    request_seconds: float = REQUEST_SECONDS
    """Seconds that each request after the handshake may take."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.generation = 0
        """How many processes were started."""
        self.version: Version | None = None
        """The version that the newest process reported."""
        self._starting = asyncio.Lock()
        self._connection: AppServerConnection | None = None
        self._process: ServerProcess | None = None
        self._closed = False
        self._quick_deaths = 0
        self._started_at = self._died_at = 0.0
        self._last_stderr = ""

    @property
    def pid(self) -> int | None:
        """Return the process id, while the process lives."""
        alive = self._connection is not None and self._connection.ended is None
        return self._process.child.pid if alive and self._process is not None else None

    async def connection(self) -> AppServerConnection:
        """Return the connection to a living server; start it if needed. Raises a `CodexError`."""
        async with self._starting:
            if self._closed:
                raise Disconnected("this app-server was closed; make another")
            if self._connection is not None:
                if self._connection.ended is None:
                    return self._connection
                await self._connection.wait_ended()
            await self._wait_before_restart()
            self._connection = await self._start()
            return self._connection

    async def close(self) -> None:
        """End the process; open requests fail. The server cannot be used again."""
        async with self._starting:
            self._closed = True
            if self._connection is not None:
                await self._connection.close(Disconnected("this app-server was closed"))
            if self._process is not None:
                await self._process.end()

    async def _wait_before_restart(self) -> None:
        if self._quick_deaths >= self.restart_policy.limit:
            if self.clock() - self._died_at < self.restart_policy.pause_seconds:
                raise AppServerUnavailable(
                    f"the Codex app-server died {self._quick_deaths} times in a row"
                    f"{self._last_stderr}; run `treadle doctor`, and try again in a minute"
                )
            self._quick_deaths = 0
        if self._quick_deaths > 1:
            backoff = self.restart_policy.backoff
            await backoff.sleep(backoff.delay(self._quick_deaths - 2))

    async def _start(self) -> AppServerConnection:
        self._process = process = await ServerProcess.start(self.command)
        self.generation += 1
        self._started_at = self.clock()
        connection = AppServerConnection(
            process.reader,
            process.writer,
            listener=self.listener,
            explain_end=self._reap,
            generation=self.generation,
            request_seconds=self.request_seconds,
        )
        try:
            await self._initialize(connection)
        except BaseException as error:
            await connection.close(Disconnected("the Codex app-server could not be used"))
            death = await process.end()
            if isinstance(error, RequestTimeout):
                self._record_death(death)
            raise
        return connection

    async def _initialize(self, connection: AppServerConnection) -> None:
        """Do the handshake, and check the version."""
        request = Initialize(
            client_info=ClientInfo(name="treadle", title="Treadle", version=_own_version()),
            capabilities=ClientCapabilities(
                experimental_api=True, opt_out_notification_methods=UNWANTED
            ),
        )
        result = await connection.call(request, seconds=self.start_seconds)
        self.version = Version.parse(result.user_agent)
        if (problem := version_problem(self.version, self.supported)) is not None:
            raise UnsupportedCodex(problem, str(self.version or ""))
        connection.notify("initialized")

    async def _reap(self) -> AppServerDied:
        """End a process whose stream has ended; return how it died."""
        assert self._process is not None
        death = await self._process.end(grace=0.5)
        self._record_death(death)
        return death

    def _record_death(self, death: AppServerDied) -> None:
        self._died_at = self.clock()
        quick = self._died_at - self._started_at < self.restart_policy.steady_seconds
        self._quick_deaths = self._quick_deaths + 1 if quick else 0
        self._last_stderr = f" ({death.last_stderr})" if death.last_stderr else ""
