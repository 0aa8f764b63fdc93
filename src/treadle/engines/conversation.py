"""Conversations: a view, and a log, as an engine reads them.

Owns the names of items, the arrays beside them, and whose log a thread may read. Invariants:
context, and what was rolled back, is left out; every array has the length of `items`; a name
means the same row to both sides for as long as the epoch lasts; reading costs what is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypedDict

import msgspec
from msgspec import Struct

from ..context.row import Row
from ..context.view import View
from ..context.visible import hidden_stretches, outside, visible_stretches
from ..core.capability import offers
from ..core.entries import Node
from ..core.errors import NotFound
from ..core.provenance import InputProvenance, InternalEvent
from ..store.contract import Hit, Hits, Index, Search, Store
from .lazy_sequence import LazySequence
from .project_memory import GrantsProject
from .values import ContextItem, Conversation, EntryRange

__all__ = [
    "PROMPT",
    "ConversationFields",
    "ReadGrants",
    "StoredLogReader",
    "ViewConversation",
    "context_item",
    "conversation_fields",
    "conversation_of_rows",
    "named_rows",
    "visible_rows",
]

PROMPT = "prompt"
"""Stands in the name of an input that is not in the log yet."""

_SPARE = 3
"""How many times more hits are searched than wanted, because some may be hidden."""


class ConversationFields(TypedDict):
    """The fields of a `Conversation`, to be passed on."""

    items: Sequence[ContextItem]
    provenance: Sequence[InputProvenance | None]
    internal_events: Sequence[tuple[InternalEvent, ...] | None]
    persist: Sequence[bool]


def named_rows(thread: str, rows: Sequence[Row]) -> dict[str, Row]:
    """Return the rows that are conversation, in order, by the names that an engine knows."""
    return {
        _name(thread, position, row): row for position, row in enumerate(rows) if not row.contextual
    }


def _name(thread: str, position: int, row: Row) -> str:
    if row.seq is not None:
        return f"{thread}:{row.seq}"
    return f"{thread}:{row.node.id}" if row.node else f"{thread}:base.{position}"


def conversation_fields(rows: Iterable[tuple[str, Row]]) -> ConversationFields:
    """Return named rows as the fields of a conversation."""
    named = list(rows)
    return ConversationFields(
        items=tuple(context_item(name, row) for name, row in named),
        provenance=tuple(row.provenance for _, row in named),
        internal_events=tuple(row.events or None for _, row in named),
        persist=tuple(not row.volatile for _, row in named),
    )


def conversation_of_rows(thread: str, rows: Sequence[Row]) -> Conversation:
    """Return the conversation in `rows`."""
    return Conversation(**conversation_fields(named_rows(thread, rows).items()))


def context_item(name: str, row: Row) -> ContextItem:
    """Return one row as an engine sees it."""
    return ContextItem(
        body=row.body,
        id=name,
        seq=row.seq,
        turn=row.turn,
        step=row.step,
        tokens=row.tokens,
        covers=_entry_range(row.node),
        name=row.node.id if row.node else None,
    )


def _entry_range(node: Node | None) -> EntryRange | None:
    return None if node is None else EntryRange(node.first, node.last)


_NOTHING = conversation_fields(())


class ViewConversation:
    """The conversation in one view, kept up as the view grows. Reads no row twice."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.tokens = 0
        """Its size."""
        self._read = 0
        """How many rows of the view were read."""
        self._positions: list[int] = []
        """Which of them are conversation."""
        self._turn_starts: dict[int, int] = {}
        """How many items stood before each turn."""
        self._item = lambda at: _item_at(view, at)
        self._provenance = lambda at: view.rows[at].provenance
        self._events = lambda at: view.rows[at].events or None
        self._persists = lambda at: not view.rows[at].volatile

    def catch_up(self) -> ViewConversation:
        """Read what the view has shown since; return this."""
        rows = self.view.rows
        for position in range(self._read, len(rows)):
            row = rows[position]
            if not row.contextual:
                self._turn_starts.setdefault(row.turn, len(self._positions))
                self._positions.append(position)
                self.tokens += row.tokens
        self._read = len(rows)
        return self

    def count_before(self, turn: int) -> int:
        """Return how many items stand before a turn; all of them where it has none."""
        return self._turn_starts.get(turn, len(self._positions))

    def fields(self, prompts: Mapping[str, Row] | None = None) -> ConversationFields:
        """Return the fields of a conversation, with inputs that are not in the view yet."""
        at, count = self._positions, len(self._positions)
        more = conversation_fields(prompts.items()) if prompts else _NOTHING
        return ConversationFields(
            items=LazySequence(at, self._item, count, tuple(more["items"])),
            provenance=LazySequence(at, self._provenance, count, tuple(more["provenance"])),
            internal_events=LazySequence(at, self._events, count, tuple(more["internal_events"])),
            persist=LazySequence(at, self._persists, count, tuple(more["persist"])),
        )


def _item_at(view: View, position: int) -> ContextItem:
    row = view.rows[position]
    return context_item(_name(view.thread, position, row), row)


class ReadGrants(Protocol):
    """Who may read whose log. The host decides it, and no engine can change it."""

    async def allows(self, reader: str, thread: str) -> bool:
        """Whether `reader` may read the log of `thread`."""
        ...

    async def readable(self, reader: str) -> tuple[str, ...] | None:
        """Return the threads that `reader` searches when it names none; None for all."""
        ...


class StoredLogReader(Struct, frozen=True):
    """Reads the log of one thread, and of others where a grant says so."""

    thread: str
    store: Store
    index: Index
    fence: int | None = None
    """The last entry that may be read; None for all of them."""
    grants: ReadGrants | None = None
    """Who decides about other threads; None where there are no others."""

    async def read(self, first: int = 1, last: int | None = None) -> Conversation:
        """Return the visible conversation from entry `first` to entry `last`."""
        ends = [end for end in (last, self.fence) if end is not None]
        last = min(ends, default=None)
        rows = await visible_rows(self.store, self.thread, first, last)
        return conversation_of_rows(self.thread, rows)

    async def spans(self, spans: Sequence[tuple[int, int]]) -> Conversation:
        """Return the visible conversation in several ranges of entries, in the order given."""
        hidden = await hidden_stretches(self.store, self.thread)
        wanted = outside([(max(first, 1), self._until(last)) for first, last in spans], hidden)
        return conversation_of_rows(self.thread, await _read_rows(self.store, self.thread, wanted))

    async def search(self, query: str, *, limit: int = 20) -> Sequence[tuple[int, str]]:
        """Return the entries that contain the words of `query`, best first, with snippets."""
        return [(hit.seq, hit.snippet) for hit in await self.find(query, limit=limit)]

    async def find(self, query: Search | str, *, limit: int = 20) -> Hits:
        """Return the visible entries that match `query`, in the order that its mode says.

        Plain words are searched in this thread, a search without threads in all that may be
        read. Raises `SearchRefused`.
        """
        if isinstance(query, str):
            query = Search(query, threads=(self.thread,), limit=limit)
        threads = await self._readable(query.threads)
        wider = msgspec.structs.replace(query, threads=threads, limit=query.limit * _SPARE)
        found = await self.index.search(wider)
        hidden: dict[str, Sequence[tuple[int, int]]] = {}
        visible: list[Hit] = []
        for hit in found:
            if hit.thread not in hidden:
                hidden[hit.thread] = await hidden_stretches(self.store, hit.thread)
            if self._is_visible(hit, hidden[hit.thread]):
                visible.append(hit)
        return Hits(visible[: query.limit], found.note)

    async def end(self) -> int:
        """Return the number of the newest entry that can be read."""
        return self._until((await self.store.info(self.thread)).last)

    async def times(self, entries: Sequence[int]) -> dict[int, int]:
        """Return when entries were stored, in milliseconds since 1970."""
        ranges = [(seq, seq) for seq in sorted(set(entries)) if seq > 0]
        found = await self.store.read_ranges(self.thread, ranges) if ranges else []
        return {entry.seq: entry.time for entry in found}

    async def of(self, thread: str) -> StoredLogReader | None:
        """Return the log of another thread; None where this one may not read it."""
        if thread == self.thread:
            return self
        if self.grants is None or not await self.grants.allows(self.thread, thread):
            return None
        try:
            await self.store.info(thread)
        except NotFound:
            return None
        return msgspec.structs.replace(self, thread=thread, fence=None)

    async def project(self) -> tuple[str, ...]:
        """Return the other threads that share their memory with this one, the newest first."""
        grants: object = self.grants
        return await grants.project(self.thread) if offers(grants, GrantsProject) else ()

    async def index_project(self) -> None:
        """Index what the threads of the project say that is new."""
        if threads := await self.project():
            await self.index.catch_up(threads)

    def _until(self, last: int) -> int:
        return last if self.fence is None else min(last, self.fence)

    async def _readable(self, threads: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return those of `threads` that may be read; None for all there are."""
        if threads is None:
            if self.grants is None:
                return (self.thread,)
            threads = await self.grants.readable(self.thread)
        if threads is None:
            return None
        # Those of a project are known together; to ask for each of them takes long.
        known = await self.project() if len(threads) > 1 else ()
        return tuple([each for each in threads if each in known or await self.of(each) is not None])

    def _is_visible(self, hit: Hit, hidden: Sequence[tuple[int, int]]) -> bool:
        behind = hit.thread == self.thread and self._until(hit.seq) < hit.seq
        return not behind and bool(outside([(hit.seq, hit.seq)], hidden))


async def visible_rows(
    store: Store, thread: str, first: int = 1, last: int | None = None, *, upto: int | None = None
) -> list[Row]:
    """Return the items between two entries that were visible at entry `upto`, or are now."""
    stretches = await visible_stretches(store, thread, first, last, upto=upto)
    return await _read_rows(store, thread, stretches)


async def _read_rows(store: Store, thread: str, spans: Sequence[tuple[int, int]]) -> list[Row]:
    entries = await store.read_ranges(thread, spans) if spans else []
    return [Row.of_entry(entry) for entry in entries if entry.kind == "item"]
