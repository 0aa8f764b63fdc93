"""Visibility: which entries of a log still count.

Owns the meaning of a rollback: at entry R with cut C it hides C to R-1. Walking
backwards jumps over what is hidden, so it is never even read; and what lies far back
is found without a walk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from ..core.entries import Entry, Rollback
from ..store.contract import Store

__all__ = ["hidden_stretches", "outside", "visible_backwards", "visible_stretches"]

_PAGE = 512
_FIRST_PAGE = 64
"""Where an engine keeps views small, what is looked for lies near the end."""


async def visible_backwards(
    store: Store, thread: str, *, upto: int | None = None
) -> AsyncGenerator[Entry, None]:
    """The visible entries of a thread, the newest first, rollback entries included."""
    limit = ((await store.info(thread)).last if upto is None else upto) + 1
    size = _FIRST_PAGE
    while limit > 1:
        page = await store.read(thread, 1, limit - 1, reverse=True, limit=size)
        size = _PAGE
        if not page:
            return
        for entry in page:
            if entry.seq < limit:
                limit = _continue_before(entry)
                yield entry


async def hidden_stretches(
    store: Store, thread: str, *, upto: int | None = None
) -> list[tuple[int, int]]:
    """What rollbacks up to entry `upto` hide, oldest first, as first and last entries."""
    found: list[tuple[int, int]] = []
    limit = upto
    for at, cut in reversed(await store.rollbacks(thread)):
        # A rollback that another one hides does not count.
        if limit is None or at <= limit:
            found.append((cut, at - 1))
            limit = cut - 1
    return found[::-1]


async def visible_stretches(
    store: Store, thread: str, first: int = 1, last: int | None = None, *, upto: int | None = None
) -> list[tuple[int, int]]:
    """The parts of a range that were visible at entry `upto`, or are now, oldest first."""
    newest = (await store.info(thread)).last if upto is None else upto
    end = newest if last is None else min(last, newest)
    return outside([(first, end)], await hidden_stretches(store, thread, upto=upto))


def outside(
    spans: Sequence[tuple[int, int]], hidden: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """What of `spans` lies in none of the `hidden` stretches, which are sorted."""
    found: list[tuple[int, int]] = []
    for start, end in spans:
        first = start
        for low, high in hidden:
            if high < first:
                continue
            if low > end:
                break
            found.append((first, low - 1))
            first = high + 1
        found.append((first, end))
    return [(first, last) for first, last in found if first <= last]


def _continue_before(entry: Entry) -> int:
    control = entry.control if entry.kind == "rollback" else None
    return control.cut if isinstance(control, Rollback) else entry.seq
