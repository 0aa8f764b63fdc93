"""Connections: one server, started when it is needed and again when it is lost.

Owns the life of the SDK's client, which lives in a task of its own. Invariants: whoever waits
for a server waits no longer than its start limit; one that keeps failing is tried at growing
intervals, and whoever needs it meanwhile is told why at once; closing leaves nothing running.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..core.install import install_command
from ..core.redact import redact
from .listing import fetch_snapshot
from .mcp_errors import ServerUnavailable
from .program_files import check_program_files
from .server_settings import McpServer, check_server, fill_variables
from .snapshot import ServerSnapshot

if TYPE_CHECKING:
    from mcp import Client

    from .elicitation import Elicitor

__all__ = ["BACKOFF", "Connection", "ConnectionState", "HttpAuth"]

ConnectionState: TypeAlias = Literal["idle", "starting", "ready", "waiting", "failed", "closed"]
"""``waiting``: it failed and is tried again; ``failed``: it is tried when it is needed again."""

HttpAuth: TypeAlias = Callable[[McpServer], Awaitable[Any]]
"""Returns what signs the requests to an HTTP server (an `httpx2.Auth`), or None."""

BACKOFF = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further attempt."""

_LIVED = 10.0
"""A server that was up for so long has not failed to start."""
_REFRESH_PAUSE = 1.0
"""Seconds between two looks at a list that keeps changing; it doubles up to a minute."""
_CONNECTION_CLOSED = -32000
_log = logging.getLogger(__name__)


class Connection:
    """The connection to one server."""

    def __init__(
        self,
        server: McpServer,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        elicitor: Elicitor,
        on_snapshot: Callable[[ServerSnapshot, list[str]], Awaitable[None]],
        known: ServerSnapshot | None = None,
        auth: HttpAuth | None = None,
        backoff: tuple[float, ...] = BACKOFF,
    ) -> None:
        self.server = server
        self.state: ConnectionState = "idle"
        self.reason = ""
        """Why it is not ready."""
        self.since = time.monotonic()
        self._environ, self._cwd = environ, cwd
        self._elicitor, self._on_snapshot, self._auth = elicitor, on_snapshot, auth
        self._known, self._backoff = known, backoff
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        """Set, and replaced, whenever the state changes."""
        self._lost = asyncio.Event()
        self._listed = asyncio.Event()
        self.refused: Client | None = None
        """One whose session the server knows no more: what it sent last was not looked at."""
        self._unlisted = ""
        """Why its tools could not be listed the last time."""
        self._client: Client | None = None

    def start(self) -> None:
        """Connect in the background, unless that is under way."""
        if self.state not in ("idle", "failed"):
            return
        self._set("starting")
        # In a context of its own: it serves other calls than the one that started it.
        self._task = asyncio.create_task(
            self._live(), name=f"mcp:{self.server.name}", context=Context()
        )

    async def client(self) -> Client:
        """Return the client of the server, which is started where it is not running.

        Raises `ServerUnavailable`.
        """
        self.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.server.settings.start_timeout):
                while self._changes_soon():
                    await self._changed.wait()
                    if self._is_idle():
                        self.start()
        if self.state == "ready" and self._client is not None:
            return self._client
        reason = self.reason
        if self.state == "starting":
            reason = f"it did not start within {self.server.settings.start_timeout:g} seconds"
        raise ServerUnavailable(self.server.name, reason or self.state)

    async def wait_listed(self) -> None:
        """Wait until the server has told what it offers. Raises `ServerUnavailable`."""
        await self.client()
        problem = "it does not list its tools"
        with suppress(TimeoutError):
            async with asyncio.timeout(self.server.settings.start_timeout):
                await self._listed.wait()
                problem = self._unlisted
        if problem:
            raise ServerUnavailable(self.server.name, problem)

    async def close(self) -> None:
        """End the connection and the process. Harmless when called twice."""
        task, self._task = self._task, None
        self._set("closed")
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.debug("%s ended with %r", self.server.name, error)

    def _changes_soon(self) -> bool:
        return self.state == "starting" or (self.state == "ready" and self._lost.is_set())

    def _is_idle(self) -> bool:
        return self.state == "idle"

    def _refuse(self) -> None:
        self.refused = self._client
        self._lost.set()

    def _set(self, state: ConnectionState, reason: str = "") -> None:
        if self.state == "closed":
            return
        self.state, self.reason, self.since = state, reason, time.monotonic()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _live(self) -> None:
        """Connect, serve until it is lost, and begin again."""
        failures = 0
        while True:
            self._set("starting")
            began = time.monotonic()
            try:
                await self._serve()
                reason = "it ended"
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - the SDK raises groups of anything
                reason = _reason(error)
                self._known = None  # it may speak another version of the protocol by now
            finally:
                self._client = None
            failures = 1 if time.monotonic() - began > _LIVED else failures + 1
            was_ready = self.state == "ready"
            if was_ready and failures == 1:
                # It worked and is gone: it is started again when somebody needs it.
                self._set("idle", reason)
                return
            if failures > len(self._backoff):
                self._set("failed", reason)
                return
            pause = self._backoff[failures - 1]
            unit = "second" if pause == 1 else "seconds"
            self._set("waiting", f"{reason}; it is tried again in {pause:g} {unit}")
            await asyncio.sleep(pause)

    async def _serve(self) -> None:
        self._lost, self._listed = asyncio.Event(), asyncio.Event()
        changed = asyncio.Event()
        limit = asyncio.timeout(self.server.settings.start_timeout)
        try:
            async with limit, self._open(changed) as client:
                limit.reschedule(None)
                self._client = client
                self._set("ready")
                refreshing = asyncio.create_task(self._refresh(client, changed))
                try:
                    await self._lost.wait()
                finally:
                    refreshing.cancel()
                    await asyncio.wait({refreshing})
        except TimeoutError:
            seconds = self.server.settings.start_timeout
            raise ServerUnavailable(
                self.server.name, f"it did not start within {seconds:g} seconds"
            ) from None

    async def _refresh(self, client: Client, changed: asyncio.Event) -> None:
        """Look at what the server offers, and again whenever it says that this changed."""
        pause = _REFRESH_PAUSE
        listening = asyncio.create_task(_load_sdk().listen_for_changes(client, changed))
        try:
            while True:
                changed.clear()
                try:
                    snapshot, problems = await fetch_snapshot(client, self.server)
                except asyncio.CancelledError:
                    raise
                except Exception as error:  # noqa: BLE001 - what is known stays known
                    self._unlisted = f"its tools cannot be listed: {_reason(error)}"
                    # That it ended is told by the call that needs it.
                    ended = getattr(error, "code", None) == _CONNECTION_CLOSED
                    level = logging.DEBUG if ended else logging.WARNING
                    _log.log(level, "the MCP server %r: %s", self.server.name, self._unlisted)
                else:
                    self._unlisted, self._known = "", snapshot
                    await self._on_snapshot(snapshot, problems)
                self._listed.set()
                with suppress(TimeoutError):
                    # What could not be listed is asked for again, also without being told.
                    async with asyncio.timeout(pause if self._unlisted else None):
                        await changed.wait()
                # One that changes at every call is not asked at every call.
                await asyncio.sleep(pause)
                pause = min(pause * 2, 60.0)
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    @asynccontextmanager
    async def _open(self, changed: asyncio.Event) -> AsyncIterator[Client]:
        sdk = await asyncio.to_thread(_load_sdk)
        check_server(self.server)
        await asyncio.to_thread(check_program_files, self.server)
        settings, missing = fill_variables(self.server.settings, self._environ)
        if missing:
            names = ", ".join(missing)
            raise ServerUnavailable(self.server.name, f"its settings need {names}; set them")
        auth = None if self._auth is None else await self._auth(self.server)
        known = self._known
        transport = sdk.open_transport(
            self.server.name, settings, environ=self._environ, cwd=self._cwd, auth=auth,
            lost=self._lost, on_refusal=self._refuse,
        )  # fmt: skip
        async with sdk.make_client(
            transport,
            legacy=known is not None and not known.is_stateless,
            elicit=self._elicitor.callback(self.server.name),
            changed=changed,
        ) as client:
            yield client


def _load_sdk() -> ModuleType:
    """Import what needs the SDK, which takes a second; in a thread, so that nobody waits for it."""
    try:
        from . import sdk_client
    except ImportError as error:
        raise ServerUnavailable(
            "", f"MCP needs a package ({error.name}); install it with {install_command('mcp')}"
        ) from error
    return sdk_client


def _reason(error: BaseException) -> str:
    """Return why a connection failed, on one line."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, ServerUnavailable):
        return error.reason
    text = " ".join(str(error).split())[:300]
    if "validation error" in text:
        return "it answers with what is no message of the protocol"
    return redact(text or type(error).__name__)
