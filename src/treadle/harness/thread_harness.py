"""The harness of a thread: which one it was opened with, and the one that serves it now.

Owns the way from a name or an object to a harness, and who closes it. Invariants: what was
made here is closed with the thread, for agents may still work with one that the thread has
moved from; what a host brought is only left; and no harness takes another's place because
that one failed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import field

from ..core.errors import UnsupportedHarness
from ..core.redact import describe_error
from ..core.service import Service
from .builtin import AUTO, CODEX
from .contract import Closes, Forgets, Harness
from .offers import HarnessOffer, Route
from .registry import HarnessRegistry, canonical, harness_registry
from .select import HarnessRules, Selection, select

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..models.catalog import Catalog
    from ..models.providers import ProviderConfig

__all__ = ["ThreadHarness"]

_log = logging.getLogger(__name__)


class ThreadHarness(Service, kw_only=True):
    """The harness of one thread."""

    wanted: str | Harness
    """What the thread was opened with."""
    catalog: Catalog
    own_model: str = ""
    """The name of the model that the host brought, which is reached whatever its name."""
    home: Path
    environ: Mapping[str, str]
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    rules: HarnessRules = field(default_factory=HarnessRules)
    registry: HarnessRegistry = field(default_factory=harness_registry)
    pin: str | None = None
    """What was asked for since the thread was opened."""
    _made: dict[str, Harness] = field(default_factory=dict)
    _thread: str = ""
    """Whom it serves; nobody before the thread is made."""
    _harness: Harness | None = None
    _selection: Selection | None = None
    _selected_for: tuple[str, str | None] | None = None
    """The model and the pin that the present harness was selected for."""

    @property
    def harness(self) -> Harness:
        """The harness that serves."""
        assert self._harness is not None, "a thread has a harness before it is used"
        return self._harness

    @property
    def selection(self) -> Selection:
        """Which one it is, and why."""
        assert self._selection is not None, "a thread has a harness before it is used"
        return self._selection

    def route(self, model: str) -> Route:
        """How a model is reached; a provider that only a harness knows, through that one."""
        known, _ = self.catalog.split(model)
        prefix, colon, _ = model.partition(":")
        provider = known or (prefix if colon else self.catalog.profile(model).provider)
        claimed = any(provider in (each.providers or ()) for each in self.registry.harnesses())
        exclusive = provider == CODEX or (claimed and not known)
        reachable = bool(self.own_model) or provider in self.providers or not exclusive
        return Route(model=model, provider=provider, reachable=reachable)

    def select(self, model: str, pin: str | None = None) -> Selection:
        """Which harness would serve `model`. Raises `MissingHarness`, `UnsupportedHarness`."""
        route = self.route(model)
        pin = self.pin if pin is None else pin
        if isinstance(self.wanted, str):
            preference = self.rules.preference(route, pin=pin, run=self.wanted)
        elif pin is None or canonical(pin) == AUTO:
            return Selection(harness=self.wanted.name, reason="brought")
        else:
            preference = self.rules.preference(route, pin=pin)
        return select(preference, self.registry, route)

    async def ensure(self, model: str, thread: str = "") -> bool:
        """Have the harness that `model` wants; return whether it is another than before.

        Raises what selecting and making it raise.
        """
        if self._selected_for == (model, self.pin) and self._thread == thread:
            return False
        await self.registry.load()
        chosen = self.select(model)
        harness = await self._make_or_reuse(chosen)
        self._check_asks(harness, model)
        moved = harness is not self._harness
        if moved:
            await self._leave()
        self._thread = thread
        self._harness, self._selection = harness, chosen
        self._selected_for = model, self.pin
        return moved

    def _check_asks(self, harness: Harness, model: str) -> None:
        """Refuse a harness that would ask a provider instead of the model that the host brought."""
        own = bool(self.own_model) and self.catalog.full_name(self.own_model) == model
        if own and harness.traits.params is not None:
            reason = "it asks providers itself, and never the object that the host brought"
            raise UnsupportedHarness(harness.name, model, reason)

    async def forget(self, log: ThreadLog) -> None:
        """Let each harness forget a thread that was reset; a failure is only logged."""
        brought = () if isinstance(self.wanted, str) else (self.wanted,)
        for harness in (*brought, *self._made.values()):
            name = harness.name
            if isinstance(harness, Forgets):
                await _attempt(name, harness.forget(log))

    async def close(self) -> None:
        """Leave the harness that serves, and close what was made here."""
        await self._leave()
        for harness in self._made.values():
            if isinstance(harness, Closes):
                await _attempt(harness.name, harness.close())
        self._made.clear()

    async def _leave(self) -> None:
        harness, self._harness = self._harness, None
        if self._thread and harness is not None and isinstance(harness, Closes):
            await _attempt(harness.name, harness.leave(self._thread))

    async def _make_or_reuse(self, chosen: Selection) -> Harness:
        if chosen.reason == "brought":
            assert not isinstance(self.wanted, str)
            return self.wanted
        if chosen.harness not in self._made:
            offer = HarnessOffer(
                home=self.home,
                environ=self.environ,
                providers=self.providers,
                config=self.rules.tables.get(chosen.harness, {}),
            )
            self._made[chosen.harness] = await self.registry.make(chosen.harness, offer)
        return self._made[chosen.harness]


async def _attempt(harness: str, work: Awaitable[None]) -> None:
    """Wait for what may fail without anybody being the worse for it."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - a thread can always be reset and closed
        _log.warning("harness %r: %s", harness, describe_error(error))
