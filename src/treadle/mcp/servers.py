"""The servers of a process: their connections, their snapshots, and what of them is offered.

Owns one connection for each server, shared by all threads. Invariants: what is offered follows
from snapshots alone; only a server that was never seen, or one that is required, is waited for;
what a server changes while a turn runs counts from the next turn on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ..core.errors import ConfigError
from .connection import BACKOFF, Connection, ConnectionState, HttpAuth
from .elicitation import Elicitor
from .mcp_errors import ServerUnavailable
from .offer import Offer, make_offer
from .server_results import result_of
from .server_settings import McpServer, check_server
from .snapshot import ServerSnapshot, SnapshotFiles

if TYPE_CHECKING:
    from mcp import Client

    from ..tools.contract import ToolResult

__all__ = ["McpServers", "ServerStatus"]

_log = logging.getLogger(__name__)


class ServerStatus(Struct, frozen=True, kw_only=True):
    """How a server is."""

    name: str
    state: ConnectionState
    reason: str
    tools: int
    protocol: str


class McpServers:
    """MCP servers; use it as an async context manager, and give it to the threads.

    `home` keeps the snapshots, so that later processes wait for nothing. `cwd` is where servers
    start that name no directory of their own. `auth` signs requests to HTTP servers.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        home: Path | None = None,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        direct_tools: int = 10,
        auth: HttpAuth | None = None,
        backoff: tuple[float, ...] = BACKOFF,
    ) -> None:
        named = {server.name: server for server in servers if server.settings.enabled}
        for server in named.values():
            check_server(server)
        self.servers = {name: named[name] for name in sorted(named)}
        self.elicitor = Elicitor()
        self.direct_tools = direct_tools
        self.snapshots: dict[str, ServerSnapshot] = {}
        """What each server offered when it was last asked."""
        self._files = SnapshotFiles.in_home(home) if home is not None else None
        self._environ = dict(os.environ if environ is None else environ)
        self._cwd = cwd or home or Path.cwd()
        self._auth = auth or (None if home is None else _logins(home, self._environ))
        self._backoff = backoff
        self._connections: dict[str, Connection] = {}
        self._notices: list[str] = []
        self._told: set[str] = set()

    async def __aenter__(self) -> Self:
        if self._files is not None and self.servers:
            await asyncio.to_thread(self._load)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection and every process."""
        await asyncio.gather(*(each.close() for each in self._connections.values()))

    def connection(self, name: str) -> Connection:
        """Return the connection to a server. Raises `ServerUnavailable` for an unknown one."""
        server = self.servers.get(name)
        if server is None:
            raise ServerUnavailable(name, "it is no longer among the servers")
        if name not in self._connections:

            async def keep(snapshot: ServerSnapshot, problems: list[str]) -> None:
                await self._keep(server, snapshot, problems)

            self._connections[name] = Connection(
                server,
                environ=self._environ,
                cwd=self._cwd,
                elicitor=self.elicitor,
                on_snapshot=keep,
                known=self.snapshots.get(name),
                auth=self._auth,
                backoff=self._backoff,
            )
        return self._connections[name]

    async def client(self, server: str) -> Client:
        """Return the client of a server, which is started where it does not run."""
        return await self.connection(server).client()

    async def wait_listed(self, server: str) -> None:
        """Wait until a server has told what it offers. Raises `ServerUnavailable`."""
        await self.connection(server).wait_listed()

    def was_refused(self, server: str, client: Client) -> bool:
        """Return whether a server knows the session of a client no more."""
        return self.connection(server).refused is client

    async def prepare(self) -> tuple[str, ...]:
        """Have what the next turn is offered; return what the user should know.

        Waits for servers that were never seen and for those that are required, all at once.
        Raises `ConfigError` when a required one does not start.
        """
        awaited = [
            server
            for name, server in self.servers.items()
            if name not in self.snapshots or self._must_start(server)
        ]
        outcomes = await asyncio.gather(*map(self._await, awaited))
        for server, problem in zip(awaited, outcomes, strict=True):
            if problem and server.settings.required:
                raise ConfigError(
                    f"{problem}; it is required: mend it, or set `required = false` for "
                    f"`mcp.servers.{server.name}`"
                )
            if problem:
                self._notice(problem)
        notices, self._notices = tuple(self._notices), []
        return notices

    async def task_outcome(self, server: str, task: str) -> ToolResult | None:
        """Wait for the outcome of a task of an earlier process; None where it cannot be had.

        No longer than a call may take; what the task asks meanwhile is declined.
        """
        known = self.servers.get(server)
        if known is None:
            return None
        try:
            client = await self.client(server)
            from .tasks import follow_task  # imports the SDK, which is loaded by now

            async with asyncio.timeout(known.settings.timeout):
                return result_of(await follow_task(client.session, task))
        except TimeoutError:
            return None
        except Exception as error:  # noqa: BLE001 - what was staged stands for it
            _log.warning("the outcome of a task of %r is not known: %s", server, error)
            return None

    def start(self) -> None:
        """Connect to every server in the background."""
        for name in self.servers:
            self.connection(name).start()

    def adopt(self, snapshot: ServerSnapshot) -> None:
        """Use a snapshot that a thread has stored, where nothing newer is known."""
        server = self.servers.get(snapshot.server)
        if server is None or snapshot.server in self.snapshots:
            return
        if snapshot.made_for == server.digest:
            self.snapshots[snapshot.server] = snapshot

    def offer(self, *, searched: bool = False, only_search: bool = False) -> Offer:
        """Return what the model may call.

        With `searched` no tool moves into the requests, with `only_search` none is there.
        """
        problems = {
            name: each.reason
            for name, each in self._connections.items()
            if each.state in ("failed", "waiting")
        }
        snapshots = tuple(self.snapshots[name] for name in sorted(self.snapshots))
        return make_offer(
            self,
            snapshots,
            problems=tuple(problems),
            searched=searched,
            only_search=only_search,
        )

    def status(self) -> tuple[ServerStatus, ...]:
        """Return the state of each server."""
        return tuple(map(self._status, self.servers))

    def _status(self, name: str) -> ServerStatus:
        connection, known = self._connections.get(name), self.snapshots.get(name)
        return ServerStatus(
            name=name,
            state="idle" if connection is None else connection.state,
            reason="" if connection is None else connection.reason,
            tools=len(known.tools_for(self.servers[name])) if known else 0,
            protocol=known.version if known else "",
        )

    def _must_start(self, server: McpServer) -> bool:
        connection = self._connections.get(server.name)
        return server.settings.required and (connection is None or connection.state != "ready")

    async def _await(self, server: McpServer) -> str:
        try:
            await self.connection(server.name).wait_listed()
        except ServerUnavailable as error:
            return str(error)
        return ""

    def _load(self) -> None:
        assert self._files is not None
        for name, server in self.servers.items():
            snapshot = self._files.load(server)
            if snapshot is not None:
                self.snapshots[name] = snapshot

    async def _keep(self, server: McpServer, snapshot: ServerSnapshot, problems: list[str]) -> None:
        for problem in problems[:3]:
            self._notice(f"the MCP server {server.name!r}: {problem}")
        if len(problems) > 3:
            self._notice(f"the MCP server {server.name!r}: {len(problems) - 3} more tools left out")
        known = self.snapshots.get(server.name)
        if known is not None and known.digest == snapshot.digest:
            return
        self.snapshots[server.name] = snapshot
        if self._files is not None:
            try:
                await asyncio.to_thread(self._files.save, server, snapshot)
            except OSError as error:
                _log.warning("the snapshot of %r was not kept: %s", server.name, error)

    def _notice(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._notices.append(text)


def _logins(home: Path, environ: Mapping[str, str]) -> HttpAuth:
    """Return what signs requests with the logins of a home."""

    async def auth(server: McpServer) -> object:
        own = server.settings
        named = {name.lower() for name in (*own.headers, *own.env_headers)}
        if server.is_local or own.bearer_token_variable or "authorization" in named:
            return None
        from .login import auth_for  # imports the SDK

        return auth_for(server, home, environ=environ)

    return auth
