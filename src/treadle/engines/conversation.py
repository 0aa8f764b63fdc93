"""Conversations: rows of a view as an engine sees them.

Owns the names of items and the arrays beside them. Invariants: what the runtime said is
left out, every array has the length of `items`, a name means the same row to both sides
for as long as the epoch lasts, and no row of a view that grows is looked at twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from ..context.row import Row
from ..context.view import View
from ..core.entries import Node
from ..core.provenance import InputProvenance, InternalEvent
from .lazy_sequence import LazySequence
from .values import ContextItem, Conversation, EntryRange

__all__ = [
    "PROMPT",
    "ConversationFields",
    "ViewConversation",
    "context_item",
    "conversation_fields",
    "conversation_of_rows",
    "named_rows",
]

PROMPT = "prompt"
"""Stands in the name of an input that is not in the log yet."""


class ConversationFields(TypedDict):
    """The fields of a `Conversation`, to be passed on."""

    items: Sequence[ContextItem]
    provenance: Sequence[InputProvenance | None]
    internal_events: Sequence[tuple[InternalEvent, ...] | None]
    persist: Sequence[bool]


def named_rows(thread: str, rows: Sequence[Row]) -> dict[str, Row]:
    """The rows that are conversation, in order, by the names that an engine knows them by."""
    return {
        _name(thread, position, row): row for position, row in enumerate(rows) if not row.contextual
    }


def _name(thread: str, position: int, row: Row) -> str:
    if row.seq is not None:
        return f"{thread}:{row.seq}"
    return f"{thread}:{row.node.id}" if row.node else f"{thread}:base.{position}"


def conversation_fields(rows: Iterable[tuple[str, Row]]) -> ConversationFields:
    """Named rows as the fields of a conversation."""
    named = list(rows)
    return ConversationFields(
        items=tuple(context_item(name, row) for name, row in named),
        provenance=tuple(row.provenance for _, row in named),
        internal_events=tuple(row.events or None for _, row in named),
        persist=tuple(not row.volatile for _, row in named),
    )


_NOTHING = conversation_fields(())


class ViewConversation:
    """The conversation in one view, kept up as the view grows."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.tokens = 0
        """Its size."""
        self._read = 0
        """How many rows of the view were looked at."""
        self._positions: list[int] = []
        """Which of them are conversation."""
        self._begun: dict[int, int] = {}
        """How many items stood before each turn."""
        self._item = lambda at: _item_at(view, at)
        self._provenance = lambda at: view.rows[at].provenance
        self._events = lambda at: view.rows[at].events or None
        self._persists = lambda at: not view.rows[at].volatile

    def catch_up(self) -> ViewConversation:
        """This, with what the view has shown since."""
        rows = self.view.rows
        for position in range(self._read, len(rows)):
            row = rows[position]
            if not row.contextual:
                self._begun.setdefault(row.turn, len(self._positions))
                self._positions.append(position)
                self.tokens += row.tokens
        self._read = len(rows)
        return self

    def count_before(self, turn: int) -> int:
        """How many items stand before a turn; all of them where nothing was said in it."""
        return self._begun.get(turn, len(self._positions))

    def fields(self, prompt: tuple[str, Row] | None = None) -> ConversationFields:
        """The fields of a conversation, with an input that is not in the view yet."""
        at, count = self._positions, len(self._positions)
        more = _NOTHING if prompt is None else conversation_fields((prompt,))
        return ConversationFields(
            items=LazySequence(at, self._item, count, tuple(more["items"])),
            provenance=LazySequence(at, self._provenance, count, tuple(more["provenance"])),
            internal_events=LazySequence(at, self._events, count, tuple(more["internal_events"])),
            persist=LazySequence(at, self._persists, count, tuple(more["persist"])),
        )


def conversation_of_rows(thread: str, rows: Sequence[Row]) -> Conversation:
    """The conversation in `rows`."""
    return Conversation(**conversation_fields(named_rows(thread, rows).items()))


def _item_at(view: View, position: int) -> ContextItem:
    row = view.rows[position]
    return context_item(_name(view.thread, position, row), row)


def context_item(name: str, row: Row) -> ContextItem:
    """One row as an engine sees it."""
    return ContextItem(
        body=row.body,
        id=name,
        seq=row.seq,
        turn=row.turn,
        step=row.step,
        tokens=row.tokens,
        covers=_covered(row.node),
        name=row.node.id if row.node else None,
    )


def _covered(node: Node | None) -> EntryRange | None:
    return None if node is None else EntryRange(node.first, node.last)
