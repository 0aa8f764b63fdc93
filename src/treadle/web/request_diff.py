"""The difference of two requests, by segment and then by text.

Owns which segments of two requests belong together. Invariant: it compares the bytes of each
segment, so that what is called the same was the same to a provider.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

from ..context.ledger import compare
from ..core.entries import BREAKING, Entry, Epoch, Reason
from ..core.errors import StoreError
from .diffs import DiffLine, Op, align, diff_lines
from .inspected_home import ShownHome
from .ledger_views import ShownLedger
from .request_views import Rendered, ShownRequests, row_label, row_role, row_text

__all__ = ["ShownDiffs"]

_MOST_TEXTS = 40
"""Segments whose text is compared; of those behind them only the names and sizes are told."""
_MOST_SEGMENTS = 400
_MOST_BREAKS = 64


class ShownDiffs:
    """Compares requests of one thread."""

    def __init__(self, home: ShownHome, requests: ShownRequests, ledger: ShownLedger) -> None:
        self._home, self._requests, self._ledger = home, requests, ledger

    async def compare(self, thread: str, first: int, second: int) -> dict[str, Any]:
        """Return what two requests share, where they part and why, and their segments."""
        a = await self._requests.render(thread, first)
        b = await self._requests.render(thread, second)
        same = compare(a.request.segments, b.request.segments)
        return {
            "thread": thread,
            "a": (await self._ledger.apart(thread, [a.row]))[0],
            "b": (await self._ledger.apart(thread, [b.row]))[0],
            "shared_segments": same.segments,
            "shared_size": b.request.ends[same.segments - 1] if same.segments else 0,
            "difference": same.difference,
            "reason": await self._reason(thread, a, b) if same.difference else None,
            "segments": await asyncio.to_thread(_segments, a, b),
        }

    async def _reason(self, thread: str, a: Rendered, b: Rendered) -> str | None:
        """Return the reasons that the log gives for a break between two requests."""
        if b.row.number == a.row.number + 1:
            return b.row.reason
        low, high = sorted((a.row.seq, b.mark.upto))
        found = await self._home.store.read_kinds_back(
            thread, BREAKING, high, first=low, limit=_MOST_BREAKS
        )
        return "+".join(dict.fromkeys(_reason_of(each) for each in reversed(found))) or None


def _reason_of(entry: Entry) -> str:
    try:
        control = entry.control
    except StoreError:
        return Reason.OTHER.value
    return (control.reason if isinstance(control, Epoch) else Reason.ROLLBACK).value


def _segments(a: Rendered, b: Rendered) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    texts = 0
    for op, a0, a1, b0, b1 in align(_digests(a), _digests(b)):
        if op == "same":
            shown.append(_same(a, a0, a1, b0, b1))
            continue
        for kind, before, after in _pair_segments(a, range(a0, a1), b, range(b0, b1)):
            shown.append(_different(kind, a, before, b, after, with_text=texts < _MOST_TEXTS))
            texts += 1
            if len(shown) >= _MOST_SEGMENTS:
                return shown
    return shown


def _pair_segments(
    a: Rendered, before: range, b: Rendered, after: range
) -> Iterator[tuple[Op, int | None, int | None]]:
    """Yield what became of each segment: two of one sort changed, others went and came."""
    old, new = list(before), list(after)
    while old or new:
        if old and new and _sort_of(a, old[0]) == _sort_of(b, new[0]):
            yield "changed", old.pop(0), new.pop(0)
        elif old:
            yield "removed", old.pop(0), None
        else:
            yield "added", None, new.pop(0)


def _sort_of(rendered: Rendered, position: int) -> tuple[str, str, str]:
    row = rendered.item_row(position)
    role = "" if row is None else row.shape.role or row.shape.type
    kind = rendered.request.segments[position].kind
    return kind, role or "", "" if row is None else row_label(rendered, position)


def _digests(rendered: Rendered) -> list[str]:
    found = []
    for position, segment in enumerate(rendered.request.segments):
        # What parts an item from the one before belongs to neither.
        piece = rendered.piece(position).strip(b", \n")
        found.append(segment.kind + hashlib.blake2b(piece, digest_size=16).hexdigest())
    return found


def _same(a: Rendered, a0: int, a1: int, b0: int, b1: int) -> dict[str, Any]:
    return {
        "op": "same",
        "a": a0,
        "b": b0,
        "kind": a.request.segments[a0].kind,
        "label": row_label(a, a0),
        "count": b1 - b0,
        "bytes_a": sum(each.size for each in a.request.segments[a0:a1]),
        "bytes_b": sum(each.size for each in a.request.segments[a0:a1]),
    }


def _different(
    op: Op, a: Rendered, before: int | None, b: Rendered, after: int | None, *, with_text: bool
) -> dict[str, Any]:
    old = "" if before is None or not with_text else row_text(a, before)
    new = "" if after is None or not with_text else row_text(b, after)
    lines, cut = diff_lines(old, new) if with_text else ([], True)
    if op != "changed":
        # A text that is new as a whole has no lines in common with nothing.
        sign = "-" if op == "removed" else "+"
        lines = [line for line in lines if line.op in {sign, "…"}]
    shown, at = (b, after) if after is not None else (a, before)
    assert at is not None, "one of both is there"
    row = shown.item_row(at)
    role = None if row is None else row.shape.role or row.shape.type
    return {
        "op": op,
        "a": before,
        "b": after,
        "kind": shown.request.segments[at].kind,
        "role": None if row is None else row_role(row),
        "label": row_label(shown, at) or role or "",
        "count": 1,
        "bytes_a": 0 if before is None else a.request.segments[before].size,
        "bytes_b": 0 if after is None else b.request.segments[after].size,
        "lines": [DiffLine(line.op, line.text) for line in lines],
        "cut": cut,
    }
