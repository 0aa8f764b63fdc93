"""A seat: an engine, and all that serves it in one thread.

Owns how long an engine may take for what, and putting together what asks it. Invariant:
whatever serves an engine calls it through one guard.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..tools.contract import Tool
from .advance import TurnAdvancer
from .assembly import Assembler
from .children import Children
from .contract import ContextEngine, Maintains
from .folding import Compactor
from .following import EngineFollower
from .frame import CallContext
from .guard import EngineGuard
from .telling import EngineReporter
from .toolbox import usable
from .upkeep import Maintenance

__all__ = ["EngineTimeouts", "Seat", "seated"]


class EngineTimeouts(Struct, frozen=True, kw_only=True):
    """How many seconds an engine has for each thing it is asked."""

    bootstrap: float = 120.0
    assemble: float = 30.0
    commit: float = 60.0
    maintain: float = 60.0
    compact: float = 180.0
    spawn: float = 10.0
    dispose: float = 10.0
    grace: float = 2.0
    """For a call that was cancelled to come to its end."""


class Seat(Struct):
    """An engine, and all that serves it in one thread."""

    engine: ContextEngine
    guard: EngineGuard
    assembly: Assembler
    advancing: TurnAdvancer
    folding: Compactor
    upkeep: Maintenance | None
    children: Children
    booted: bool = False
    _found: tuple[object, frozenset[str], tuple[tuple[Tool, ...], list[str]]] | None = None
    """The tools it brought, the names that were taken, and what came of it."""

    def usable(
        self, brought: Sequence[Tool], taken: frozenset[str]
    ) -> tuple[tuple[Tool, ...], list[str]]:
        """The tools that can be offered, and what is wrong; looked at again when they change."""
        known = self._found
        if known is None or known[0] is not brought or known[1] != taken:
            known = brought, taken, usable(brought, taken)
            self._found = known if isinstance(brought, tuple) else None
        return known[2]


def seated(
    engine: ContextEngine,
    guard: EngineGuard,
    frame: CallContext,
    telling: EngineReporter,
    *,
    follower: EngineFollower,
    patience: EngineTimeouts,
) -> Seat:
    """A seat for `engine`, which is called through `guard`."""
    upkeep = None
    if isinstance(engine, Maintains):
        upkeep = Maintenance(engine, guard, frame, telling, patience.maintain)
    return Seat(
        engine=engine,
        guard=guard,
        assembly=Assembler(engine, guard, frame, patience.assemble),
        advancing=TurnAdvancer(engine, guard, frame, follower, patience.commit),
        folding=Compactor(engine, guard, frame, patience.compact),
        upkeep=upkeep,
        children=Children(guard, frame, telling, patience.spawn),
    )
