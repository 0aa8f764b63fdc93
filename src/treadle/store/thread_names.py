"""The names of threads: a title, or the first words that were said.

Invariant: what people are shown as the name of a thread is on one line, and short.
"""

from __future__ import annotations

import msgspec

from ..core.entries import Draft, own_parts
from ..core.items import Message, decode_item, text_of
from .contract import Store, ThreadInfo

__all__ = ["LONGEST_NAME", "shorten_name", "thread_name", "words_of_user"]

LONGEST_NAME = 50
_OPENING = 32
"""Entries among which the first words are looked for."""


async def thread_name(store: Store, info: ThreadInfo) -> str:
    """Return the title of a thread, or how the first input that people are shown begins."""
    if info.title or not info.turns:
        return info.title
    entries = await store.read(info.id, 1, limit=_OPENING)
    return next(filter(None, (words_of_user(entry) for entry in entries if entry.turn)), "")


def shorten_name(words: str) -> str:
    """Return the beginning of `words` on one line."""
    line = " ".join(words.split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"


def words_of_user(draft: Draft) -> str:
    """Return what its sender says on one short line, if it is an input for people to see."""
    if draft.kind != "item" or draft.flags:
        return ""
    try:
        item = decode_item(draft.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    if not isinstance(item, Message) or item.role != "user":
        return ""
    return shorten_name(text_of(own_parts(item.content, draft.fragments)))
