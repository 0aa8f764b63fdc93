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
from .catalog import ANY, OwnModel, keep_catalog, knows
from .connection import Connection
from .home import CodexHome
from .options import CodexOptions
from .protocol.notifications import Notification
from .route import Route
from .server import AppServer
from .signing import SIGNED, SUBSCRIPTION_URL, Signature, login_of, signature_of

__all__ = ["Servers", "Way"]

NOBODY = Identity()
OWN = "codex"
"""The provider that only the user's own Codex knows how to reach."""


class Way(Struct, frozen=True, kw_only=True):
    """How a provider is reached: by a route of ours, or as the user's Codex does."""

    route: Route | None
    secrets: Mapping[str, str] = {}
    signature: Signature | None = None
    """Who the process has to be signed in as."""

    @property
    def payer(self) -> str:
        """Who pays: those for whom it differs share no process."""
        if self.signature is not None:
            return self.signature.profile
        held = "\0".join(f"{name}={value}" for name, value in sorted(self.secrets.items()))
        return hashlib.sha256(held.encode()).hexdigest() if held else ""

    def __repr__(self) -> str:
        return f"Way({self.route!r})"


@dataclass(slots=True, kw_only=True)
class Servers:
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

    def way(self, provider: str, who: Identity = NOBODY) -> Way:
        """How `provider` is reached. Raises `ConfigError` (`AuthError`) and `AuthFailed`."""
        login = login_of(provider, who, own_home=self.options.home == "private")
        unrouted = provider == OWN and provider not in self.providers
        native = unrouted if login is None else login.how == "native"
        if native:
            return Way(route=None)
        # What only Codex reaches is asked where a profile's account is, if one is lent to it.
        asked = SIGNED if unrouted else provider
        settings = provider_settings(asked, self.providers)
        if asked == OWN:
            settings = ProviderConfig(api="responses").with_overrides(settings)
        signature = signature_of(who) if login is not None else None
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
        route = Route(
            provider=provider,
            base_url=_subscribed(found.base_url) if signature else found.base_url,
            env_key=found.key_variable if secrets else None,
            signed=signature is not None,
            headers=found.headers,
            retries=found.retries,
            idle_seconds=found.idle_timeout,
        )
        return Way(route=route, secrets=secrets, signature=signature)

    async def server(self, way: Way, *, lifted: bool, slug: str = "") -> AppServer:
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
                    way, home, catalogued=catalogued, own=(ANY,) if unknown else ()
                )
            return self._started[key]

    async def connection(self, server: AppServer, way: Way) -> Connection:
        """The connection to a server that is signed in as `way` wants it."""
        connection = await server.connection()
        if way.signature is not None:
            wanted = (connection.generation, way.signature.token)
            if self._signed.get(server) != wanted:
                await connection.call(way.signature.request)
                self._signed[server] = wanted
        return connection

    @property
    def started(self) -> tuple[AppServer, ...]:
        """Those that were needed so far."""
        return tuple(self._started.values())

    def home_for(self, way: Way) -> CodexHome:
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
            place = await keep_catalog(await self._binary(), self.home / "codex")
            self._known[slug] = knows(await asyncio.to_thread(place.read_bytes), slug)
        return self._known[slug]

    async def _binary(self) -> Path:
        binary = self.options.binary
        return binary if binary is not None else await asyncio.to_thread(find_codex)

    async def _made(
        self, way: Way, home: CodexHome, *, catalogued: bool, own: tuple[OwnModel, ...]
    ) -> AppServer:
        binary = await self._binary()
        catalog = await keep_catalog(binary, self.home / "codex", own) if catalogued else None
        launch = await asyncio.to_thread(
            home.prepare,
            binary,
            self.environ,
            (way.route,) if way.route else (),
            secrets=way.secrets,
            catalog=catalog,
        )
        return AppServer(launch, listener=self.listener, patience=self.options.request_timeout)


def _subscribed(base_url: str) -> str:
    """Where a subscription is asked: where the settings say, else at its own place."""
    usual = provider_settings("openai").base_url
    return SUBSCRIPTION_URL if base_url == usual else base_url
