"""Selection: which harness runs a turn, and why.

Owns the order of preferences and the reasons that events show. Invariant: `select` is a
function of what it is given; a harness that was asked for is never replaced by another
unless it says itself that it may be.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..core.errors import UnsupportedHarness
from ..core.redact import describe_error
from .builtin import AUTO, TREADLE
from .offers import Registration, Route, Support
from .registry import HarnessRegistry, canonical

__all__ = ["HarnessRules", "Preference", "Reason", "Selection", "select"]

Reason: TypeAlias = Literal[
    "forced_treadle",
    "forced_plugin",
    "plugin_declared_fallback_treadle",
    "auto_plugin",
    "auto_treadle",
    "brought",
]
"""Why a harness runs a turn; ``brought``: the host gave the object itself."""

Asked: TypeAlias = Literal["", "pin", "run", "model", "provider", "general"]


class Preference(Struct, frozen=True, kw_only=True):
    """Which harness is wanted, by everybody who may say so; None says nothing.

    The first one that names a harness counts; ``auto`` leaves it to the next.
    """

    pin: str | None = None
    """What was said while the thread was open."""
    run: str | None = None
    """What the thread was opened with: a flag, a variable, an argument."""
    model: str | None = None
    provider: str | None = None
    general: str | None = None
    """What the configuration says for all models."""

    def first_named(self) -> tuple[str, Asked]:
        """Return the harness that is asked for and by whom; ``auto`` by nobody."""
        levels: tuple[Asked, ...] = ("pin", "run", "model", "provider", "general")
        for asked in levels:
            name = getattr(self, asked)
            if name is not None and canonical(name) != AUTO:
                return canonical(name), asked
        return AUTO, ""


class HarnessRules(Struct, frozen=True, kw_only=True):
    """What a configuration says about harnesses."""

    general: str = AUTO
    models: dict[str, str] = {}
    """By the name of a model, with or without its provider."""
    providers: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    """What each harness is made with, by id."""

    def preference(
        self, route: Route, *, pin: str | None = None, run: str | None = None
    ) -> Preference:
        """Return who wants which harness for a model."""
        bare = route.model.removeprefix(f"{route.provider}:")
        names = (route.model, f"{route.provider}:{bare}", bare)
        scoped = next((self.models[name] for name in names if name in self.models), None)
        provider = self.providers.get(route.provider)
        return Preference(pin=pin, run=run, model=scoped, provider=provider, general=self.general)


class Selection(Struct, frozen=True, kw_only=True):
    """A harness and why it was chosen."""

    harness: str
    reason: Reason
    asked: Asked = ""
    """Who asked for it by name."""
    detail: str = ""
    """What was said about its support."""


def select(preference: Preference, registry: HarnessRegistry, route: Route) -> Selection:
    """Choose a harness for `route`. Raises `MissingHarness` and `UnsupportedHarness`."""
    name, asked = preference.first_named()
    route = msgspec.structs.replace(route, requested=name)
    if name == AUTO:
        return _automatic(registry, route)
    chosen = registry.find(name)
    support = _support(chosen, route)
    if support.supported:
        reason: Reason = "forced_treadle" if chosen.id == TREADLE else "forced_plugin"
        return Selection(harness=chosen.id, reason=reason, asked=asked, detail=support.reason)
    if not support.fallback or chosen.id == TREADLE:
        raise UnsupportedHarness(chosen.id, route.model, support.reason)
    _require_loop(registry, route)
    return Selection(
        harness=TREADLE,
        reason="plugin_declared_fallback_treadle",
        asked=asked,
        detail=support.reason,
    )


def _automatic(registry: HarnessRegistry, route: Route) -> Selection:
    candidates = [each for each in registry.harnesses() if _takes(each, route.provider)]
    answers = [(each.id, _support(each, route)) for each in candidates]
    willing = [(each, support) for each, support in answers if support.supported]
    if not willing:
        _require_loop(registry, route)
        return Selection(harness=TREADLE, reason="auto_treadle")
    best, support = min(willing, key=lambda found: (-found[1].priority, found[0]))
    return Selection(harness=best, reason="auto_plugin", detail=support.reason)


def _takes(each: Registration, provider: str) -> bool:
    return each.id != TREADLE and (each.providers is None or provider in each.providers)


def _require_loop(registry: HarnessRegistry, route: Route) -> None:
    """Raise `UnsupportedHarness` where Treadle's own loop cannot run a route either."""
    support = _support(registry.find(TREADLE), route)
    if not support.supported:
        raise UnsupportedHarness(TREADLE, route.model, support.reason)


def _support(each: Registration, route: Route) -> Support:
    try:
        return each.supports(route)
    except Exception as error:  # noqa: BLE001 - other people's code may raise anything
        return Support(supported=False, reason=f"asked about it, it raised {describe_error(error)}")
