"""The head of a thread whose turns were all rolled back.

Owns the search for it in what rollbacks hide. Invariant: it tells which model a thread asked
last; no request is made from it, for what is hidden decides nothing that a model sees.
"""

from __future__ import annotations

from ..core.entries import Epoch, Head
from ..store.contract import Store
from .view import View, load_head

__all__ = ["newest_head"]

_PAGE = 256


async def newest_head(store: Store, view: View) -> Head | None:
    """Return the head of `view`; where it has none, the newest one that a rollback hides."""
    if view.head is not None:
        return view.head
    for first, last in view.gaps:
        if (digest := await _newest_digest(store, view.thread, first, last)) is not None:
            return await load_head(store, digest)
    return None


async def _newest_digest(store: Store, thread: str, first: int, last: int) -> str | None:
    while page := await store.read(thread, first, last, reverse=True, limit=_PAGE):
        for entry in page:
            control = entry.control if entry.kind == "epoch" else None
            if isinstance(control, Epoch) and control.head is not None:
                return control.head
        last = page[-1].seq - 1
        if last < first:
            break
    return None
