"""Wanted entries: those of a thread that a reader asks for, with whether they still count.

Owns the way back to the first of them. Invariant: a page of entries is held at a time, however
long the thread is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ..core.entries import Entry, Rollback
from ..store.contract import Store

__all__ = ["wanted_entries"]

_PAGE = 512


async def wanted_entries(
    store: Store, thread: str, limit: int | None, wanted: Callable[[Entry, bool], bool]
) -> AsyncGenerator[tuple[Entry, bool], None]:
    """Yield the wanted entries in log order, only the newest `limit`, each with its visibility."""
    first, hidden = await _survey(store, thread, limit, wanted)
    last = (await store.info(thread)).last
    while first <= last:
        page = await store.read(thread, first, last, limit=_PAGE)
        if not page:
            break
        for entry in page:
            # The stretches are disjoint, the oldest last.
            while hidden and hidden[-1][1] <= entry.seq:
                hidden.pop()
            visible = not (hidden and hidden[-1][0] <= entry.seq)
            if wanted(entry, visible):
                yield entry, visible
        first = page[-1].seq + 1


async def _survey(
    store: Store, thread: str, limit: int | None, wanted: Callable[[Entry, bool], bool]
) -> tuple[int, list[tuple[int, int]]]:
    """Where to begin, and the stretches that rollbacks hide."""
    hidden: list[tuple[int, int]] = []
    first, left = 1, limit
    async with aclosing(_backwards(store, thread)) as entries:
        async for entry in entries:
            visible = not (hidden and hidden[-1][0] <= entry.seq < hidden[-1][1])
            if left is not None and wanted(entry, visible):
                left, first = left - 1, entry.seq
                if not left:
                    return first, hidden
            control = entry.control if visible and entry.kind == "rollback" else None
            if isinstance(control, Rollback):
                hidden.append((control.cut, entry.seq))
    return 1 if limit is None else first, hidden


async def _backwards(store: Store, thread: str) -> AsyncGenerator[Entry, None]:
    last = (await store.info(thread)).last
    while last > 0:
        page = await store.read(thread, 1, last, reverse=True, limit=_PAGE)
        if not page:
            return
        for entry in page:
            yield entry
        last = page[-1].seq - 1
