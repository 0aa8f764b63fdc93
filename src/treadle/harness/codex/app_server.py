"""The app-server: one process for many threads, started when it is needed.

Owns its start, the handshake, the check of its version, the restart after a crash and
the end. Invariant: at most one process lives at a time, and `connection` returns a
connection that works or raises a typed error with the reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module

from ...models.retry import Backoff
from .errors import (
    AppServerDied,
    AppServerUnavailable,
    Disconnected,
    RequestTimeout,
    UnsupportedCodex,
)
from .protocol.client_requests import ClientCapabilities, ClientInfo, Initialize
from .protocol.notifications import UNWANTED, Notification
from .server_connection import REQUEST_SECONDS, AppServerConnection, NotificationListener
from .server_process import ServerCommand, ServerProcess
from .version import SUPPORTED_VERSIONS, Version, VersionRange, version_problem

__all__ = ["AppServer", "RestartPolicy"]


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
