"""What a model was told of its surroundings, and when: only the differences.

Owns what became of a fragment with each telling. Invariant: a page of changes costs a page of
the log, wherever it lies.
"""

from __future__ import annotations

from typing import Any

from ..context.visible import hidden_stretches
from ..core.entries import Entry, FragmentMark
from ..core.errors import StoreError
from ..core.items import Message
from ..core.wire import NULL
from .api_answers import page_of
from .inspected_home import ShownHome

__all__ = ["ShownState"]

_CUT = 4_000
_OPENING = 16
"""Entries with fragments at the start of a thread among which a first telling is looked for."""


class ShownState:
    """Tells what the model was told about state."""

    def __init__(self, home: ShownHome) -> None:
        self._home = home

    async def changes(self, thread: str, before: int | None, limit: int) -> dict[str, Any]:
        """Return the newest changes before an entry, newest first."""
        info = await self._home.thread(thread)
        last = info.last if before is None else min(before - 1, info.last)
        store = self._home.store
        entries = await store.read_told_back(info.id, last, limit=limit + 1) if last else []
        hidden = await hidden_stretches(store, info.id)
        told = await self._first_told(info.id)
        shown = []
        for entry in entries[:limit]:
            visible = not any(first <= entry.seq <= end for first, end in hidden)
            for mark in entry.fragments:
                first = told.get(mark.id, entry.seq) == entry.seq
                shown.append(_change(entry, mark, first=first, visible=visible))
        more = len(entries) > limit
        return {"changes": shown, "next": entries[limit - 1].seq if more else None}

    async def _first_told(self, thread: str) -> dict[str, int]:
        """Return where each fragment was told first, as far as a thread's start says it."""
        first: dict[str, int] = {}
        start = await self._home.store.read(thread, 1, limit=_OPENING)
        for entry in start:
            for mark in entry.fragments:
                first.setdefault(mark.id, entry.seq)
        return first


def _change(entry: Entry, mark: FragmentMark, *, first: bool, visible: bool) -> dict[str, Any]:
    page = page_of(_text(entry, mark), 0, _CUT)
    return {
        "seq": entry.seq,
        "turn": entry.turn,
        "time": entry.time,
        "fragment": mark.id,
        "op": _op(mark, first=first),
        "text": page.text,
        "cut": page.next is not None,
        "chars": page.chars,
        "visible": visible,
    }


def _op(mark: FragmentMark, *, first: bool) -> str:
    if mark.part is None:
        return "recorded"
    if mark.snapshot == NULL:
        return "removed"
    return "full" if first else "change"


def _text(entry: Entry, mark: FragmentMark) -> str:
    """Return the words in which a fragment was told."""
    try:
        item = entry.item
    except StoreError:
        return ""
    content = item.content if isinstance(item, Message) else ()
    part = content[mark.part] if mark.part is not None and mark.part < len(content) else None
    text = getattr(part, "text", "")
    return text if isinstance(text, str) else ""
