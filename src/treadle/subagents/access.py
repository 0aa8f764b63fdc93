"""Access: which threads may read each other's history.

Owns the rule: a thread reads itself, its ancestors and its descendants, by forking or by
being started; and the threads that the user allowed. Invariant: siblings and unrelated
threads are refused, and who is whose parent is read from the log, never from a model's text.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from ..core.entries import SettingsChange
from ..core.errors import NotFound
from ..store.contract import Store, ThreadInfo
from .records import Lineage, lineage_of

__all__ = ["EVERY_THREAD", "ThreadAccess", "find_lineage"]

EVERY_THREAD = "*"
"""Means all threads in a list of allowed threads."""

_MOST = 256
"""How many ancestors are read."""


class ThreadAccess(Struct, frozen=True):
    """The right of the threads of one store to read each other."""

    store: Store
    allowed: Collection[str] = ()
    """Threads that any thread may read."""

    async def allows(self, reader: str, thread: str) -> bool:
        """Return whether `reader` may read the log of `thread`."""
        if reader == thread or not {thread, EVERY_THREAD}.isdisjoint(self.allowed):
            return True
        return thread in await self._ancestors(reader) or reader in await self._ancestors(thread)

    async def readable(self, reader: str) -> tuple[str, ...] | None:
        """Return the threads that `reader` searches by default; None for all threads."""
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
        """Return the thread that a thread was forked from, and the one that started it."""
        try:
            info = await self.store.info(thread)
            lineage = await find_lineage(self.store, info)
        except NotFound:
            return []
        parents = [info.parent, lineage.parent if lineage else None]
        return [parent for parent in parents if parent is not None]


async def find_lineage(store: Store, info: ThreadInfo) -> Lineage | None:
    """Return who started a thread, which the first entry of an agent's own log says."""
    own = await store.read(info.id, info.cut + 1, info.cut + 1)
    first = own[0].control if own and own[0].kind == "settings" else None
    return lineage_of(first.changes, info.id) if isinstance(first, SettingsChange) else None
