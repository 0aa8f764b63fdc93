"""The log as an engine reads it: the visible conversation, by entry.

Owns what of a log is conversation, and whose log a thread may read. Invariants: what was
rolled back or is context is not in it, however far back an engine reads; reading costs
what is read and not how far back it lies; and nobody reads a log without a grant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..context.row import Row
from ..context.visible import hidden_stretches, outside, visible_stretches
from ..core.errors import NotFound
from ..store.contract import Hit, Hits, Index, Search, Store
from .conversation import conversation_of_rows
from .values import Conversation

__all__ = ["ReadGrants", "StoredConversationLog", "visible_rows"]

_SPARE = 3
"""How many times more hits are asked for than wanted, because some may be hidden."""


class ReadGrants(Protocol):
    """Who may read whose log. The host says it, and no engine can change it."""

    async def allows(self, reader: str, thread: str) -> bool:
        """Whether `reader` may read the log of `thread`."""
        ...

    async def readable(self, reader: str) -> tuple[str, ...] | None:
        """Where `reader` looks when it does not say where; None for all threads."""
        ...


class StoredConversationLog(Struct, frozen=True):
    """The log of one thread, up to an entry where a fence stands."""

    thread: str
    store: Store
    index: Index
    fence: int | None = None
    """The last entry that may be read; None for all of them."""
    grants: ReadGrants | None = None
    """Who decides about other threads; None where there are no others."""

    async def read(self, first: int = 1, last: int | None = None) -> Conversation:
        """The visible conversation from entry `first` to entry `last`."""
        ends = [end for end in (last, self.fence) if end is not None]
        last = min(ends, default=None)
        rows = await visible_rows(self.store, self.thread, first, last)
        return conversation_of_rows(self.thread, rows)

    async def spans(self, spans: Sequence[tuple[int, int]]) -> Conversation:
        """The visible conversation in several stretches of entries, in the order given."""
        hidden = await hidden_stretches(self.store, self.thread)
        wanted = outside([(max(first, 1), self._until(last)) for first, last in spans], hidden)
        return conversation_of_rows(self.thread, await _rows(self.store, self.thread, wanted))

    async def search(self, query: str, *, limit: int = 20) -> Sequence[tuple[int, str]]:
        """Entries that contain the words of `query`, best first, with a snippet each."""
        return [(hit.seq, hit.snippet) for hit in await self.find(query, limit=limit)]

    async def find(self, query: Search | str, *, limit: int = 20) -> Hits:
        """Visible entries that answer `query`, in the order that its mode says.

        Plain words are looked for in this thread, a search without threads in all that
        may be read. Raises `SearchRefused`.
        """
        if isinstance(query, str):
            query = Search(query, threads=(self.thread,), limit=limit)
        threads = await self._readable(query.threads)
        asked = msgspec.structs.replace(query, threads=threads, limit=query.limit * _SPARE)
        found = await self.index.search(asked)
        hidden: dict[str, Sequence[tuple[int, int]]] = {}
        shown: list[Hit] = []
        for hit in found:
            if hit.thread not in hidden:
                hidden[hit.thread] = await hidden_stretches(self.store, hit.thread)
            if self._shows(hit, hidden[hit.thread]):
                shown.append(hit)
        return Hits(shown[: query.limit], found.note)

    async def end(self) -> int:
        """The newest entry that can be read."""
        return self._until((await self.store.info(self.thread)).last)

    async def times(self, entries: Sequence[int]) -> dict[int, int]:
        """When entries were stored, in milliseconds since 1970."""
        ranges = [(seq, seq) for seq in sorted(set(entries)) if seq > 0]
        found = await self.store.read_ranges(self.thread, ranges) if ranges else []
        return {entry.seq: entry.time for entry in found}

    async def of(self, thread: str) -> StoredConversationLog | None:
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

    async def _readable(self, threads: Sequence[str] | None) -> tuple[str, ...] | None:
        """Those of `threads` that may be read; None for all there are."""
        if threads is None:
            if self.grants is None:
                return (self.thread,)
            threads = await self.grants.readable(self.thread)
        if threads is None:
            return None
        return tuple([thread for thread in threads if await self.of(thread) is not None])

    def _shows(self, hit: Hit, hidden: Sequence[tuple[int, int]]) -> bool:
        behind = hit.thread == self.thread and self._until(hit.seq) < hit.seq
        return not behind and bool(outside([(hit.seq, hit.seq)], hidden))


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
