"""The log as an engine reads it: the visible conversation, by entry.

Owns what of a log is conversation, and whose log a thread may read. Invariants: what was
rolled back or is context is not in it, however far back an engine reads; reading costs
what is read and not how far back it lies; and nobody reads a log without a grant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..context.row import Row
from ..context.visible import hidden_stretches, outside, visible_stretches
from ..errors import NotFound
from ..store.contract import Hit, Index, Store
from .conversation import conversation_of
from .values import Conversation

__all__ = ["Grants", "StoredLog", "visible_rows"]

_SPARE = 3
"""How many more hits are asked for than wanted where some may be hidden."""


class Grants(Protocol):
    """Who may read whose log. The host says it, and no engine can change it."""

    async def allows(self, reader: str, thread: str) -> bool:
        """Whether `reader` may read the log of `thread`."""
        ...


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The log of one thread, up to an entry where a fence stands."""

    thread: str
    store: Store
    index: Index
    fence: int | None = None
    """The last entry that may be read; None for all of them."""
    grants: Grants | None = None
    """Who decides about other threads; None where there are no others."""

    async def read(self, first: int = 1, last: int | None = None) -> Conversation:
        """The visible conversation from entry `first` to entry `last`."""
        ends = [end for end in (last, self.fence) if end is not None]
        last = min(ends, default=None)
        rows = await visible_rows(self.store, self.thread, first, last)
        return conversation_of(self.thread, rows)

    async def spans(self, spans: Sequence[tuple[int, int]]) -> Conversation:
        """The visible conversation in several stretches of entries, in the order given."""
        hidden = await hidden_stretches(self.store, self.thread)
        wanted = outside([(max(first, 1), self._until(last)) for first, last in spans], hidden)
        return conversation_of(self.thread, await _rows(self.store, self.thread, wanted))

    async def search(self, query: str, *, limit: int = 20) -> Sequence[tuple[int, str]]:
        """Entries that contain the words of `query`, best first, with a snippet each."""
        return [(hit.seq, hit.snippet) for hit in await self.find(query, limit=limit)]

    async def find(self, query: str, *, limit: int = 20) -> Sequence[Hit]:
        """Visible entries that answer `query`, best first."""
        hidden = await hidden_stretches(self.store, self.thread)
        wanted = limit * _SPARE if hidden or self.fence is not None else limit
        hits = await self.index.search(query, thread=self.thread, limit=wanted)
        return [hit for hit in hits if self._shows(hit.seq, hidden)][:limit]

    async def times(self, entries: Sequence[int]) -> dict[int, int]:
        """When entries were stored, in milliseconds since 1970."""
        ranges = [(seq, seq) for seq in sorted(set(entries)) if seq > 0]
        found = await self.store.read_ranges(self.thread, ranges) if ranges else []
        return {entry.seq: entry.time for entry in found}

    async def of(self, thread: str) -> StoredLog | None:
        """The log of another thread; None where this one may not read it."""
        if thread == self.thread:
            return self
        if self.grants is None or not await self.grants.allows(self.thread, thread):
            return None
        try:
            await self.store.info(thread)
        except NotFound:
            return None
        return replace(self, thread=thread, fence=None)

    def _until(self, last: int) -> int:
        return last if self.fence is None else min(last, self.fence)

    def _shows(self, seq: int, hidden: Sequence[tuple[int, int]]) -> bool:
        return self._until(seq) == seq and bool(outside([(seq, seq)], hidden))


async def visible_rows(
    store: Store, thread: str, first: int = 1, last: int | None = None, *, upto: int | None = None
) -> list[Row]:
    """The items between two entries that were visible at entry `upto`, or are now, in order."""
    return await _rows(
        store, thread, await visible_stretches(store, thread, first, last, upto=upto)
    )


async def _rows(store: Store, thread: str, spans: Sequence[tuple[int, int]]) -> list[Row]:
    entries = await store.read_ranges(thread, spans) if spans else []
    return [Row.of_entry(entry) for entry in entries if entry.kind == "item"]
