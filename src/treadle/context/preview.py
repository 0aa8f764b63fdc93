"""Preview: the request that a turn would send, without writing anything.

Owns the one difference to a real turn: rows come from drafts and have no place in
the log yet. Invariant: the bytes are those the turn would send.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.entries import Draft, Head, Reason
from ..prompt.registry import Registry
from .request import Request, RequestEncoder
from .row import Row
from .view import View

__all__ = ["preview"]


def preview(
    view: View,
    head: Head,
    drafts: Iterable[Draft],
    registry: Registry,
    reason: Reason | None = None,
) -> tuple[View, Request]:
    """The view and the request as they would be once `drafts` were appended."""
    shown = view.copy()
    shown.head = head
    shown.reason = reason or view.reason
    for draft in drafts:
        if draft.kind == "item":
            shown.add(Row.of_draft(draft), registry)
    request = RequestEncoder(head, shown.cache_key).encode(
        shown.rows, epoch=shown.epoch, upto=shown.upto
    )
    return shown, request
