"""Visibility: which entries of a log still count.

Owns the meaning of a rollback: at entry R with cut C it hides C to R-1. Walking
backwards jumps over what is hidden, so it is never even read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ..entries import Entry, Rollback
from ..store.contract import Store

__all__ = ["visible_backwards"]

_PAGE = 512


async def visible_backwards(
    store: Store, thread: str, *, upto: int | None = None
) -> AsyncGenerator[Entry, None]:
    """The visible entries of a thread, the newest first, rollback entries included."""
    limit = ((await store.info(thread)).last if upto is None else upto) + 1
    while limit > 1:
        page = await store.read(thread, 1, limit - 1, reverse=True, limit=_PAGE)
        if not page:
            return
        for entry in page:
            if entry.seq < limit:
                limit = _continue_before(entry)
                yield entry


def _continue_before(entry: Entry) -> int:
    control = entry.control if entry.kind == "rollback" else None
    return control.cut if isinstance(control, Rollback) else entry.seq
