"""The names of threads: a title, or the first words that were said.

Invariant: what people are shown as the name of a thread is on one line, and short.
"""

from __future__ import annotations

from ..core.entries import Entry, own_parts
from ..core.errors import StoreCorrupt
from ..core.items import Message, text_of
from .contract import Store, ThreadInfo

__all__ = ["LONGEST_NAME", "shorten_name", "thread_name"]

LONGEST_NAME = 50
_OPENING = 32
"""Entries among which the first words are looked for."""


async def thread_name(store: Store, info: ThreadInfo) -> str:
    """Return the title of a thread, or how the first input that people are shown begins."""
    if info.title or not info.turns:
        return info.title
    entries = await store.read(info.id, 1, limit=_OPENING)
    return shorten_name(next(filter(None, map(_words, entries)), ""))


def shorten_name(words: str) -> str:
    """Return the beginning of `words` on one line."""
    line = " ".join(words.split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"


def _words(entry: Entry) -> str:
    """Return what an entry's sender says, if it is an input for people to see."""
    if entry.kind != "item" or not entry.turn or entry.flags:
        return ""
    try:
        item = entry.item
    except StoreCorrupt:
        return ""
    if not isinstance(item, Message) or item.role != "user":
        return ""
    return text_of(own_parts(item.content, entry.fragments))
