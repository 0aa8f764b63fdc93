"""The app-server: one process for many threads, started when it is needed.

Owns its life: the first start, the hand-shake, the check of its version, the restart
after a crash and the end. Invariant: at most one process lives at a time, and whoever
asks for the connection gets one that works or a typed error that says why not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module

from ...models.retry import Backoff
from .connection import REQUEST_SECONDS, AppServerConnection, NotificationListener
from .errors import (
    AppServerDied,
    AppServerUnavailable,
    Disconnected,
    RequestTimeout,
    UnsupportedCodex,
)
from .launch import ServerCommand
from .process import ServerProcess
from .protocol.notifications import UNWANTED, Notification
from .protocol.requests import ClientCapabilities, ClientInfo, Initialize
from .version import SUPPORTED_VERSIONS, Version, VersionRange, version_problem

__all__ = ["AppServer", "RestartPolicy"]


def _own_version() -> str:
    # The package's front page names every layer, so it is not imported by one of them.
    return str(import_module("treadle").__version__)


def _ignore(_: Notification) -> None:
    """Take a notification and do nothing with it."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a server that died is started again, and when that is given up."""

    limit: int = 5
    """Quick deaths in a row after which it is left alone for a while."""
    steady_seconds: float = 10.0
    """Seconds of life after which a death is not a quick one."""
    pause_seconds: float = 60.0
    """Seconds it is left alone."""
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.2, jitter=0.2))


@dataclass(eq=False)
class AppServer:
    """A supervised `codex app-server`.

    `connection()` starts it, or starts another where it has died; the connection's
    `generation` tells users of an older one that their threads must be opened anew.
    `listener` hears what is about no thread.
    """

    command: ServerCommand
    listener: NotificationListener = _ignore
    supported: VersionRange = SUPPORTED_VERSIONS
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)
    start_seconds: float = 30.0
    request_seconds: float = REQUEST_SECONDS
    """Seconds that each request after the hand-shake may take."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.generation = 0
        """How many processes were started."""
        self.version: Version | None = None
        """What the newest process says it is."""
        self._starting = asyncio.Lock()
        self._connection: AppServerConnection | None = None
        self._process: ServerProcess | None = None
        self._closed = False
        self._quick_deaths = 0
        self._started = self._died = 0.0
        self._last_words = ""

    @property
    def pid(self) -> int | None:
        """The process, while it lives."""
        alive = self._connection is not None and self._connection.ended is None
        return self._process.child.pid if alive and self._process is not None else None

    async def connection(self) -> AppServerConnection:
        """The connection to a living server. Raises a `CodexError`."""
        async with self._starting:
            if self._closed:
                raise Disconnected("this app-server was closed; make another")
            if self._connection is not None:
                if self._connection.ended is None:
                    return self._connection
                await self._connection.wait_ended()
            await self._wait_for_better_times()
            self._connection = await self._start()
            return self._connection

    async def close(self) -> None:
        """End the process; what is unanswered fails. It cannot be used again."""
        async with self._starting:
            self._closed = True
            if self._connection is not None:
                await self._connection.close(Disconnected("this app-server was closed"))
            if self._process is not None:
                await self._process.end()

    async def _wait_for_better_times(self) -> None:
        if self._quick_deaths >= self.restart_policy.limit:
            if self.clock() - self._died < self.restart_policy.pause_seconds:
                raise AppServerUnavailable(
                    f"the Codex app-server died {self._quick_deaths} times in a row"
                    f"{self._last_words}; run `treadle doctor`, and try again in a minute"
                )
            self._quick_deaths = 0
        if self._quick_deaths > 1:
            backoff = self.restart_policy.backoff
            await backoff.sleep(backoff.delay(self._quick_deaths - 2))

    async def _start(self) -> AppServerConnection:
        self._process = process = await ServerProcess.start(self.command)
        self.generation += 1
        self._started = self.clock()
        connection = AppServerConnection(
            process.reader,
            process.writer,
            listener=self.listener,
            explain_end=self._bury,
            generation=self.generation,
            request_seconds=self.request_seconds,
        )
        try:
            await self._shake_hands(connection)
        except BaseException as error:
            await connection.close(Disconnected("the Codex app-server could not be used"))
            death = await process.end()
            if isinstance(error, RequestTimeout):
                self._record(death)
            raise
        return connection

    async def _shake_hands(self, connection: AppServerConnection) -> None:
        hello = Initialize(
            client_info=ClientInfo(name="treadle", title="Treadle", version=_own_version()),
            capabilities=ClientCapabilities(
                experimental_api=True, opt_out_notification_methods=UNWANTED
            ),
        )
        answer = await connection.call(hello, seconds=self.start_seconds)
        self.version = Version.parse(answer.user_agent)
        if (trouble := version_problem(self.version, self.supported)) is not None:
            raise UnsupportedCodex(trouble, str(self.version or ""))
        connection.notify("initialized")

    async def _bury(self) -> AppServerDied:
        assert self._process is not None
        death = await self._process.end(grace=0.5)
        self._record(death)
        return death

    def _record(self, death: AppServerDied) -> None:
        self._died = self.clock()
        quick = self._died - self._started < self.restart_policy.steady_seconds
        self._quick_deaths = self._quick_deaths + 1 if quick else 0
        self._last_words = f" ({death.last_stderr})" if death.last_stderr else ""
