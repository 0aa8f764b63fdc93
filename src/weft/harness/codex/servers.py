"""The app-servers of a harness: which process serves which thread.

Owns the way from a model's provider to a process that can reach it, with the secrets it
needs and no others. Invariant: one process serves every thread that needs the same
secrets and the same home; it is started when the first of them runs a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from ...errors import ConfigError
from ...models.connect import ProviderConfig, reached
from ...models.providers import provider_settings
from ...prompt.codex import find_codex
from .catalog import ANY, OwnModel, keep_catalog, knows
from .home import CodexHome
from .options import CodexOptions
from .protocol.notifications import Notification
from .route import Route
from .server import AppServer

__all__ = ["Servers", "Way"]

OWN = "codex"
"""The provider that only the user's own Codex knows how to reach."""


class Way(Struct, frozen=True, kw_only=True):
    """How a provider is reached: by a route of ours, or as the user's Codex does."""

    route: Route | None
    secrets: Mapping[str, str] = {}

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
    _started: dict[tuple[bool, bool, bool, tuple[str, ...]], AppServer] = field(
        init=False, default_factory=dict
    )
    _known: dict[str, bool] = field(init=False, default_factory=dict)
    """Which models the binary describes, as far as that was asked."""
    _starting: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def way(self, provider: str) -> Way:
        """How `provider` is reached. Raises `ConfigError` and `AuthFailed`."""
        if provider == OWN and provider not in self.providers:
            return Way(route=None)
        settings = provider_settings(provider, self.providers)
        if provider == OWN:
            settings = ProviderConfig(api="responses").changed(settings)
        found = reached(provider, settings, self.environ)
        if found.api != "responses":
            raise ConfigError(
                f"Codex asks its models through the Responses API, which the provider "
                f"{provider!r} does not speak; use the harness 'weft' for it"
            )
        route = Route(
            provider=provider,
            base_url=found.base_url,
            env_key=found.key_variable if found.key else None,
            headers=found.headers,
            retries=found.retries,
            idle_seconds=found.idle_timeout,
        )
        return Way(route=route, secrets={found.key_variable: found.key} if found.key else {})

    async def server(self, way: Way, *, lifted: bool, slug: str = "") -> AppServer:
        """The process for `way`; one for `lifted` threads of a model has no limit for it."""
        home = self.home_for(way)
        # A user's Codex may have models that the binary has not; it keeps its own list.
        catalogued = home.private or lifted
        unknown = lifted and bool(slug) and not await self._knows(slug)
        key = (home.private, catalogued, unknown, way.route.variables if way.route else ())
        async with self._starting:
            if key not in self._started:
                self._started[key] = await self._made(
                    way, home, catalogued=catalogued, own=(ANY,) if unknown else ()
                )
            return self._started[key]

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
