"""The app-servers of a harness: which process serves which thread.

Owns the way from a model's provider to a process that can reach it, with the secrets it
needs and no others. Invariant: one process serves every thread that needs the same
secrets and the same home; it is started when the first of them runs a turn.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct, structs

from ...core.errors import ConfigError
from ...models.connect import ProviderConfig, provider_access
from ...models.providers import provider_settings
from ...prompt.codex import find_codex
from ..contract import Identity
from .catalog import UNKNOWN_MODEL, ExtraModel, has_model, write_catalog
from .connection import AppServerConnection
from .home import CodexHome
from .options import CodexOptions
from .protocol.notifications import Notification
from .route import ProviderRoute
from .server import AppServer
from .signing import ACCOUNT_PROVIDER, SUBSCRIPTION_URL, AccountTokens, account_tokens, login_for

__all__ = ["ProviderAccess", "ServerPool"]

NOBODY = Identity()
OWN = "codex"
"""The provider that only the user's own Codex knows how to reach."""


class ProviderAccess(Struct, frozen=True, kw_only=True):
    """How a provider is reached: by a route of ours, or as the user's Codex does."""

    route: ProviderRoute | None
    secrets: Mapping[str, str] = {}
    account: AccountTokens | None = None
    """Who the process has to be signed in as."""

    @property
    def payer(self) -> str:
        """Who pays: those for whom it differs share no process."""
        if self.account is not None:
            return self.account.profile
        held = "\0".join(f"{name}={value}" for name, value in sorted(self.secrets.items()))
        return hashlib.sha256(held.encode()).hexdigest() if held else ""

    def __repr__(self) -> str:
        return f"Way({self.route!r})"


@dataclass(slots=True, kw_only=True)
class ServerPool:
    """The processes that one harness has started."""

    options: CodexOptions
    home: Path
    environ: Mapping[str, str] = field(repr=False)
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict, repr=False)
    listener: Callable[[Notification], None] = field(default=lambda _: None, repr=False)
    _started: dict[tuple[bool, bool, bool, str, tuple[str, ...]], AppServer] = field(
        init=False, default_factory=dict
    )
    _signed: dict[AppServer, tuple[int, str]] = field(init=False, default_factory=dict, repr=False)
    """With which tokens which process of a server is signed in."""
    _known: dict[str, bool] = field(init=False, default_factory=dict)
    """Which models the binary describes, as far as that was asked."""
    _starting: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def access(self, provider: str, who: Identity = NOBODY) -> ProviderAccess:
        """How `provider` is reached. Raises `ConfigError` (`AuthError`) and `AuthFailed`."""
        login = login_for(provider, who, own_home=self.options.home == "private")
        unrouted = provider == OWN and provider not in self.providers
        native = unrouted if login is None else login.how == "native"
        if native:
            return ProviderAccess(route=None)
        # What only Codex reaches is asked where a profile's account is, if one is lent to it.
        asked = ACCOUNT_PROVIDER if unrouted else provider
        settings = provider_settings(asked, self.providers)
        if asked == OWN:
            settings = ProviderConfig(api="responses").with_overrides(settings)
        signature = account_tokens(who) if login is not None else None
        if signature is not None:
            settings = structs.replace(settings, key_required=False)
        elif who.credential is not None:
            settings = structs.replace(settings, key=who.credential.bearer)
        found = provider_access(asked, settings, self.environ)
        if found.api != "responses":
            raise ConfigError(
                f"Codex asks its models through the Responses API, which the provider "
                f"{provider!r} does not speak; use the harness 'treadle' for it"
            )
        secrets = {found.key_variable: found.key} if found.key and signature is None else {}
        route = ProviderRoute(
            provider=provider,
            base_url=_subscribed(found.base_url) if signature else found.base_url,
            env_key=found.key_variable if secrets else None,
            uses_account=signature is not None,
            headers=found.headers,
            retries=found.retries,
            idle_seconds=found.idle_timeout,
        )
        return ProviderAccess(route=route, secrets=secrets, account=signature)

    async def server(self, way: ProviderAccess, *, lifted: bool, slug: str = "") -> AppServer:
        """The process for `way`; one for `lifted` threads of a model has no limit for it."""
        home = self.home_for(way)
        # A user's Codex may have models that the binary has not; it keeps its own list.
        catalogued = home.private or lifted
        unknown = lifted and bool(slug) and not await self._knows(slug)
        variables = way.route.variables if way.route else ()
        key = (home.private, catalogued, unknown, way.payer, variables)
        async with self._starting:
            if key not in self._started:
                self._started[key] = await self._made(
                    way, home, catalogued=catalogued, own=(UNKNOWN_MODEL,) if unknown else ()
                )
            return self._started[key]

    async def connect(self, server: AppServer, way: ProviderAccess) -> AppServerConnection:
        """The connection to a server that is signed in as `way` wants it."""
        connection = await server.connection()
        if way.account is not None:
            wanted = (connection.generation, way.account.token)
            if self._signed.get(server) != wanted:
                await connection.call(way.account.login_request)
                self._signed[server] = wanted
        return connection

    @property
    def servers(self) -> tuple[AppServer, ...]:
        """Those that were needed so far."""
        return tuple(self._started.values())

    def home_for(self, way: ProviderAccess) -> CodexHome:
        """Whose settings a thread on `way` has."""
        private = self.options.home == "private" and way.route is not None
        return CodexHome.below(self.home) if private else CodexHome.of_user(self.environ)

    async def close(self) -> None:
        """End every process."""
        async with self._starting:
            servers, self._started = self._started, {}
            self._signed.clear()
            for server in servers.values():
                await server.close()

    async def _knows(self, slug: str) -> bool:
        """Whether the binary describes a model; for others, no thread could be lifted."""
        if slug not in self._known:
            place = await write_catalog(await self._binary(), self.home / "codex")
            self._known[slug] = has_model(await asyncio.to_thread(place.read_bytes), slug)
        return self._known[slug]

    async def _binary(self) -> Path:
        binary = self.options.binary
        return binary if binary is not None else await asyncio.to_thread(find_codex)

    async def _made(
        self, way: ProviderAccess, home: CodexHome, *, catalogued: bool, own: tuple[ExtraModel, ...]
    ) -> AppServer:
        binary = await self._binary()
        catalog = await write_catalog(binary, self.home / "codex", own) if catalogued else None
        launch = await asyncio.to_thread(
            home.prepare,
            binary,
            self.environ,
            (way.route,) if way.route else (),
            secrets=way.secrets,
            catalog=catalog,
        )
        return AppServer(
            launch, listener=self.listener, request_seconds=self.options.request_timeout
        )


def _subscribed(base_url: str) -> str:
    """Where a subscription is asked: where the settings say, else at its own place."""
    usual = provider_settings("openai").base_url
    return SUBSCRIPTION_URL if base_url == usual else base_url
