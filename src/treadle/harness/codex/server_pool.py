"""The app-servers of a harness: which process serves which thread.

Owns the processes and their logins. Invariant: one process serves every thread that needs
the same secrets and the same home, with those secrets and no others; it is started when
the first of these threads runs a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...models.providers import ProviderConfig
from ..contract import Identity
from .app_server import AppServer
from .codex_home import UNKNOWN_MODEL, CodexHome, ExtraModel, has_model, write_catalog
from .codex_options import CodexOptions
from .errors import LoginMissing, UnknownMethod
from .protocol.client_requests import ReadAccount
from .server_access import ServerAccess, server_access
from .server_connection import AppServerConnection, NotificationListener
from .version import choose_codex, supported_versions

__all__ = ["ServerPool"]

_NOBODY = Identity()


@dataclass(slots=True, kw_only=True)
class ServerPool:
    """The app-servers that one harness has started."""

    options: CodexOptions
    home: Path
    environ: Mapping[str, str] = field(repr=False)
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict, repr=False)
    listener: NotificationListener = field(default=lambda _: None, repr=False)
    _servers: dict[tuple[bool, bool, bool, str, tuple[str, ...]], AppServer] = field(
        init=False, default_factory=dict
    )
    _logins: dict[AppServer, tuple[int, str]] = field(init=False, default_factory=dict, repr=False)
    """The generation and the token with which each server is logged in."""
    _known_models: dict[str, bool] = field(init=False, default_factory=dict)
    """Whether the binary knows a model, for the models that were looked up."""
    _found: Path | None = field(init=False, default=None)
    """The binary, once it was looked for."""
    _starting: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    @property
    def servers(self) -> tuple[AppServer, ...]:
        """Return the servers that were needed so far."""
        return tuple(self._servers.values())

    def access(self, provider: str, identity: Identity = _NOBODY) -> ServerAccess:
        """Return how `provider` is reached. Raises `ConfigError` (`AuthError`), `AuthFailed`."""
        return server_access(
            provider,
            identity,
            providers=self.providers,
            environ=self.environ,
        )

    def home_for(self, access: ServerAccess) -> CodexHome:
        """Return the home whose settings apply to threads with `access`."""
        private = self.options.home == "private" and access.route is not None
        return CodexHome.below(self.home) if private else CodexHome.of_user(self.environ)

    async def server(self, access: ServerAccess, *, unlimited: bool, slug: str = "") -> AppServer:
        """Return the server for `access`; an `unlimited` one can lift the window of `slug`."""
        home = self.home_for(access)
        # The user's Codex may know models that the binary does not; it keeps its own catalog.
        with_catalog = home.private or unlimited
        unknown = unlimited and bool(slug) and not await self._is_known_model(slug)
        variables = access.route.variables if access.route else ()
        key = (home.private, with_catalog, unknown, access.payer, variables)
        async with self._starting:
            if key not in self._servers:
                self._servers[key] = await self._create(
                    access,
                    home,
                    with_catalog=with_catalog,
                    extra=(UNKNOWN_MODEL,) if unknown else (),
                )
            return self._servers[key]

    async def connect(self, server: AppServer, access: ServerAccess) -> AppServerConnection:
        """Return a connection to `server`, and log it in as `access` requires."""
        connection = await server.connection()
        if access.account is not None:
            wanted = (connection.generation, access.account.token)
            if self._logins.get(server) != wanted:
                await connection.call(access.account.login_request)
                self._logins[server] = wanted
        elif access.route is None:
            await self._check_login(connection, self.home_for(access).directory)
        return connection

    async def _check_login(self, connection: AppServerConnection, home: Path) -> None:
        """Raise `LoginMissing` where Codex would only try in vain, again and again."""
        with suppress(UnknownMethod):
            found = await connection.call(ReadAccount())
            if found.account is None and found.requires_openai_auth:
                raise LoginMissing(home)

    async def close(self) -> None:
        """End every process."""
        async with self._starting:
            servers, self._servers = self._servers, {}
            self._logins.clear()
            for server in servers.values():
                await server.close()

    async def _is_known_model(self, slug: str) -> bool:
        """Say whether the binary knows a model; the window of others could not be lifted."""
        if slug not in self._known_models:
            place = await write_catalog(await self._binary(), self.home / "codex")
            listing = await asyncio.to_thread(place.read_bytes)
            self._known_models[slug] = has_model(listing, slug)
        return self._known_models[slug]

    async def _binary(self) -> Path:
        if self._found is None:
            search, newer = self.environ.get("PATH"), self.options.allow_newer
            self._found = self.options.binary or await choose_codex(search, allow_newer=newer)
        return self._found

    async def _create(
        self,
        access: ServerAccess,
        home: CodexHome,
        *,
        with_catalog: bool,
        extra: tuple[ExtraModel, ...],
    ) -> AppServer:
        binary = await self._binary()
        catalog = await write_catalog(binary, self.home / "codex", extra) if with_catalog else None
        command = await asyncio.to_thread(
            home.prepare,
            binary,
            self.environ,
            (access.route,) if access.route else (),
            secrets=access.secrets,
            catalog=catalog,
        )
        return AppServer(
            command,
            listener=self.listener,
            supported=supported_versions(allow_newer=self.options.allow_newer),
            request_seconds=self.options.request_timeout,
        )
