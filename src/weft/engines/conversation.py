"""Conversations: rows of a view as an engine sees them.

Owns the names of items and the arrays beside them. Invariant: what the runtime said is
left out, every array has the length of `items`, and a name means the same row to both
sides for as long as the epoch lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from ..context.row import Row
from ..entries import Node
from ..provenance import InputProvenance, InternalEvent
from .values import ContextItem, Conversation, Covered

__all__ = [
    "PROMPT",
    "Aligned",
    "aligned",
    "conversation_of",
    "item_of",
    "named_rows",
    "spoken_tokens",
]

PROMPT = "prompt"
"""Stands in the name of an input that is not in the log yet."""


class Aligned(TypedDict):
    """The fields of a `Conversation`, to be passed on."""

    items: tuple[ContextItem, ...]
    provenance: tuple[InputProvenance | None, ...]
    internal_events: tuple[tuple[InternalEvent, ...] | None, ...]
    persist: tuple[bool, ...]


def named_rows(thread: str, rows: Sequence[Row]) -> dict[str, Row]:
    """The rows that are conversation, in order, by the names that an engine knows them by."""
    return {
        _name(thread, position, row): row for position, row in enumerate(rows) if not row.contextual
    }


def spoken_tokens(rows: Sequence[Row]) -> int:
    """The size of the conversation in `rows`."""
    return sum(row.tokens for row in rows if not row.contextual)


def _name(thread: str, position: int, row: Row) -> str:
    if row.seq is not None:
        return f"{thread}:{row.seq}"
    return f"{thread}:{row.node.id}" if row.node else f"{thread}:base.{position}"


def aligned(rows: Iterable[tuple[str, Row]]) -> Aligned:
    """Named rows as the fields of a conversation."""
    named = list(rows)
    return Aligned(
        items=tuple(item_of(name, row) for name, row in named),
        provenance=tuple(row.provenance for _, row in named),
        internal_events=tuple(row.events or None for _, row in named),
        persist=tuple(not row.volatile for _, row in named),
    )


def conversation_of(thread: str, rows: Sequence[Row]) -> Conversation:
    """The conversation in `rows`."""
    return Conversation(**aligned(named_rows(thread, rows).items()))


def item_of(name: str, row: Row) -> ContextItem:
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


def _covered(node: Node | None) -> Covered | None:
    return None if node is None else Covered(node.first, node.last)
