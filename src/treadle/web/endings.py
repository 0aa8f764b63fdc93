"""How turns ended: who ran them, and what was said last.

Owns how much of a log is read to know that. Invariant: it is a few entries, however long the
turn was.
"""

from __future__ import annotations

from msgspec import Struct

from ..core.entries import Entry, Flags
from ..core.errors import StoreError
from ..core.items import Message, text_of
from ..store.contract import Store

__all__ = ["Ending", "find_ending"]

_NEWEST = 3, 32
"""Entries that are looked at: nearly always one of the last three tells."""


class Ending(Struct, frozen=True):
    """How a stretch of a log ended."""

    harness: str = "treadle"
    """Who ran it."""
    answer: str = ""
    """The last words of the model, if it came to them."""


async def find_ending(store: Store, thread: str, first: int, last: int) -> Ending:
    """Return how the entries `first` to `last` ended."""
    for limit in _NEWEST:
        newest = await store.read(thread, first, last, reverse=True, limit=limit)
        for entry in newest:
            if entry.kind == "item" and entry.origin is not None and not _is_told(entry):
                return Ending(entry.origin.harness or "treadle", _answer(entry))
    return Ending()


def _is_told(entry: Entry) -> bool:
    """Say whether an item was put there by us, as a summary is."""
    return entry.has_flag(Flags.SUMMARY) or entry.has_flag(Flags.CONTEXTUAL)


def _answer(newest: Entry) -> str:
    """Return what the newest item says, where that is the model's answer."""
    try:
        item = newest.item
    except StoreError:
        return ""
    if isinstance(item, Message) and item.role == "assistant":
        return text_of(item.content)
    return ""
