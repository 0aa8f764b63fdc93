"""Access: which threads may read each other's history.

Owns the rule: a thread reads itself, its ancestors and its descendants, by forking or by
being started; the threads that the user allowed; and where the user shares the memory of
projects, the threads of its own. Invariant: others are refused, and who is whose parent is read
from the log, never from a model's text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

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
_MOST_OF_PROJECT = 64
"""How many threads of a project share their memory, the newest."""
_MOST_LISTED = 2_000
"""How many threads are looked through for them."""


class ThreadAccess(Struct, frozen=True):
    """The right of the threads of one store to read each other."""

    store: Store
    allowed: Collection[str] = ()
    """Threads that any thread may read."""
    shares_project: bool = False
    """Whether the threads of a project read each other."""

    async def allows(self, reader: str, thread: str) -> bool:
        """Return whether `reader` may read the log of `thread`."""
        if reader == thread or not {thread, EVERY_THREAD}.isdisjoint(self.allowed):
            return True
        if self.shares_project and await self._is_same_project(reader, thread):
            return True
        return thread in await self._ancestors(reader) or reader in await self._ancestors(thread)

    async def readable(self, reader: str) -> tuple[str, ...] | None:
        """Return the threads that `reader` searches by default; None for all threads."""
        if EVERY_THREAD in self.allowed:
            return None
        related = {reader, *await self._ancestors(reader), *self.allowed}
        return tuple(sorted(related.union(await self.project(reader))))

    async def project(self, reader: str) -> tuple[str, ...]:
        """Return the newest other threads of the reader's project, if those share their memory."""
        if not self.shares_project:
            return ()
        own = (await self.store.info(reader)).cwd
        listed = await self.store.threads(limit=_MOST_LISTED)
        found = await asyncio.to_thread(
            lambda: [
                info.id for info in listed if info.id != reader and _are_together(info.cwd, own)
            ]
        )
        return tuple(found[:_MOST_OF_PROJECT])

    async def _is_same_project(self, one: str, other: str) -> bool:
        try:
            places = [(await self.store.info(thread)).cwd for thread in (one, other)]
        except NotFound:
            return False
        return await asyncio.to_thread(_are_together, *places)

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


def _are_together(one: str, other: str) -> bool:
    """Return whether two directories are of one project; no directory is of none."""
    return bool(one and other) and _project_of(one) == _project_of(other)


@lru_cache(maxsize=1_024)
def _project_of(cwd: str) -> Path:
    """Return the repository around a directory, else the directory itself."""
    place = Path(cwd).resolve()
    return next((each for each in (place, *place.parents) if (each / ".git").exists()), place)


async def find_lineage(store: Store, info: ThreadInfo) -> Lineage | None:
    """Return who started a thread, which the first entry of an agent's own log says."""
    own = await store.read(info.id, info.cut + 1, info.cut + 1)
    first = own[0].control if own and own[0].kind == "settings" else None
    return lineage_of(first.changes, info.id) if isinstance(first, SettingsChange) else None
