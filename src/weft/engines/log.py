"""The log as an engine reads it: the visible conversation, by entry.

Owns what of a log is conversation. Invariant: what was rolled back or is context is not
in it, however far back an engine reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from ..context.row import Row
from ..context.visible import visible_backwards
from ..store.contract import Index, Store
from .conversation import conversation_of
from .values import Conversation

__all__ = ["StoredLog", "visible_rows"]


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The log of one thread, up to an entry where a fence stands."""

    thread: str
    store: Store
    index: Index
    fence: int | None = None
    """The last entry that may be read; None for all of them."""

    async def read(self, first: int = 1, last: int | None = None) -> Conversation:
        """The visible conversation from entry `first` to entry `last`."""
        ends = [end for end in (last, self.fence) if end is not None]
        last = min(ends, default=None)
        rows = await visible_rows(self.store, self.thread, first, last)
        return conversation_of(self.thread, rows)

    async def search(self, query: str, *, limit: int = 20) -> Sequence[tuple[int, str]]:
        """Entries that contain the words of `query`, best first, with a snippet each."""
        hits = await self.index.search(query, thread=self.thread, limit=limit)
        fence = self.fence
        return [(hit.seq, hit.snippet) for hit in hits if fence is None or hit.seq <= fence]


async def visible_rows(
    store: Store, thread: str, first: int = 1, last: int | None = None, *, upto: int | None = None
) -> list[Row]:
    """The items between two entries that were visible at entry `upto`, or are now, in order."""
    rows: list[Row] = []
    async with aclosing(visible_backwards(store, thread, upto=upto)) as entries:
        async for entry in entries:
            if entry.seq < first:
                break
            if entry.kind == "item" and (last is None or entry.seq <= last):
                rows.append(Row.of_entry(entry))
    return rows[::-1]
