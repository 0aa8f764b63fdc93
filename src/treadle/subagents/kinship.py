"""Kinship: which threads may read each other's history.

Owns the rule: a thread reads itself, those it comes from and those that come from it, by
forking or by being started; and what the user allowed. Invariant: siblings and strangers
are refused, and who is whose parent is read from the log and never from what a model says.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from ..core.entries import SettingsChange
from ..core.errors import NotFound
from ..store.contract import Store
from .values import descent_of

__all__ = ["EVERY_THREAD", "Kinship"]

EVERY_THREAD = "*"
"""Stands for all threads where some are allowed."""

_MOST = 256
"""How many ancestors are looked at."""


class Kinship(Struct, frozen=True):
    """The grants of one store."""

    store: Store
    allowed: Collection[str] = ()
    """Threads that any thread may read."""

    async def allows(self, reader: str, thread: str) -> bool:
        """Whether `reader` may read the log of `thread`."""
        if reader == thread or not {thread, EVERY_THREAD}.isdisjoint(self.allowed):
            return True
        return thread in await self._ancestors(reader) or reader in await self._ancestors(thread)

    async def readable(self, reader: str) -> tuple[str, ...] | None:
        """Where `reader` looks when it does not say where; None for all threads."""
        if EVERY_THREAD in self.allowed:
            return None
        return tuple(sorted({reader, *await self._ancestors(reader), *self.allowed}))

    async def _ancestors(self, thread: str) -> set[str]:
        known: set[str] = set()
        waiting = [thread]
        while waiting and len(known) < _MOST:
            for parent in await self._parents(waiting.pop()):
                if parent not in known:
                    known.add(parent)
                    waiting.append(parent)
        return known

    async def _parents(self, thread: str) -> list[str]:
        """Whom a thread was forked from, and who started it."""
        try:
            info = await self.store.info(thread)
            own = await self.store.read(thread, info.cut + 1, info.cut + 1)
        except NotFound:
            return []
        # Who started an agent is the first thing its own log says.
        said = own[0].control if own and own[0].kind == "settings" else None
        descent = descent_of(said.changes, thread) if isinstance(said, SettingsChange) else None
        parents = [info.parent, descent.parent if descent else None]
        return [parent for parent in parents if parent is not None]
