"""Offers: what a harness says of itself before it is made, and what it is made with.

Owns the values that selection decides on. Invariant: none of them holds a process, a
connection or a secret in its `repr`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from ..core.plugins import HOST

if TYPE_CHECKING:
    from ..models.providers import ProviderConfig
    from ..store.contract import OutboxRow
    from .contract import Harness

__all__ = ["DeleteStored", "Factory", "HarnessOffer", "Registration", "Route", "Support"]


class Route(Struct, frozen=True, kw_only=True):
    """Which model a turn asks, as selection sees it."""

    model: str
    provider: str
    reachable: bool = True
    """Whether Treadle can ask the provider itself; else a harness must."""
    requested: str = "auto"
    """The harness that was asked for by name, or ``auto``."""


class Support(Struct, frozen=True, kw_only=True):
    """Whether a harness can run a route."""

    supported: bool
    priority: int = 0
    """Under ``auto`` the highest is chosen, then the first id."""
    reason: str = ""
    """Why, in words that a user can act on."""
    fallback: bool = False
    """Where it was asked for and cannot: whether Treadle's own loop may run the turn."""


class HarnessOffer(Struct, frozen=True, kw_only=True):
    """What a harness is made with."""

    home: Path
    """Treadle's home; a harness keeps what it keeps in a directory of its own below it."""
    environ: Mapping[str, str]
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    """Providers beside those that Treadle knows, or changes to them."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The harness's own table of the configuration."""

    __repr__ = object.__repr__  # nobody is told what the environment holds


DeleteStored: TypeAlias = "Callable[[HarnessOffer, str, Sequence[OutboxRow]], Awaitable[list[str]]]"
"""Deletes what a harness has stored of a thread, of which it gets the outbox rows; returns what it
could not delete, and why. The same thread may come again after a crash."""

Factory: TypeAlias = "Callable[[HarnessOffer], Harness | Awaitable[Harness]]"
"""Makes a harness. It runs on the event loop and must not block it."""


def _willing(route: Route) -> Support:
    del route
    return Support(supported=True)


class Registration(Struct, frozen=True, kw_only=True):
    """A harness that somebody offers."""

    id: str
    label: str
    """What people call it."""
    factory: Factory
    providers: tuple[str, ...] | None = ()
    """Whose models it takes under ``auto``: these; None asks `supports`; () takes none."""
    supports: Callable[[Route], Support] = _willing
    """Whether it can run a route. It is asked often and must not look at the machine."""
    owner: str = HOST
    """``treadle``, ``host``, or the distribution it is from."""
    delete_stored: DeleteStored | None = None
    """Called before a thread is deleted, if the harness stores something of it."""
