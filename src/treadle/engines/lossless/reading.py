"""Reading: what must be known of a conversation at every step.

Owns sums and marks over its items. Invariant: what was read is not read again; a
conversation that has grown costs what is new in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ...core.items import FunctionCall
from ..lazy_sequence import starts_with
from ..values import ContextItem
from .recall.noting import FreshStart

__all__ = ["Reading", "read"]


class Reading(Struct, frozen=True, kw_only=True):
    """A conversation, and what it comes to."""

    items: Sequence[ContextItem] = ()
    tokens: int = 0
    names: tuple[str, ...] = ()
    """Its summaries."""
    first: int | None = None
    """Its first entry that is no summary …"""
    oldest: int = 0
    """… and the oldest turn of such entries."""
    wish: int = 0
    """The newest turn in which a fresh start was asked for."""
    noted: frozenset[str] = frozenset()
    """The notes that were written in it."""

    @property
    def waits(self) -> bool:
        """Whether a fresh start would leave something behind."""
        return 0 < self.oldest < self.wish


def read(items: Sequence[ContextItem], before: Reading | None = None) -> Reading:
    """What `items` come to; where they begin with what was read `before`, only the rest is read."""
    known = before if before is not None and starts_with(items, before.items) else Reading()
    new = items[len(known.items) :]
    entries = [item for item in new if item.seq is not None]
    calls = [item for item in new if b"new_context" in item.body or b"note_write" in item.body]
    turns = [item.turn for item in entries if item.turn > 0]
    return Reading(
        items=items,
        tokens=known.tokens + sum(item.tokens for item in new),
        names=known.names + tuple(item.name for item in new if item.name is not None),
        first=entries[0].seq if known.first is None and entries else known.first,
        oldest=min((known.oldest or turns[0], *turns)) if turns else known.oldest,
        wish=max((known.wish, *(call.turn for call in calls if _is_wish(call)))),
        noted=known.noted.union(name for call in calls if (name := _note_of(call))),
    )


def _is_wish(item: ContextItem) -> bool:
    said = item.item if item.seq is not None else None
    if not isinstance(said, FunctionCall) or said.name != "new_context":
        return False
    try:
        msgspec.json.decode(said.arguments, type=FreshStart)
    except msgspec.DecodeError:  # the tool has refused it
        return False
    return True


class _Named(Struct):
    """As much of a note as its name."""

    name: str


def _note_of(item: ContextItem) -> str:
    """The name of the note that a call writes; nothing for anything else."""
    call = item.item
    if not isinstance(call, FunctionCall) or call.name != "note_write":
        return ""
    try:
        return msgspec.json.decode(call.arguments, type=_Named).name
    except msgspec.DecodeError:  # the tool has refused it
        return ""
