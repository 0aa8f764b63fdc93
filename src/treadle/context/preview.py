"""Preview: the request that a turn would send, without writing anything.

Owns the one difference to a real turn: rows come from drafts, and their places are
behind the end of the log. Invariant: the bytes are those the turn would send.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ..core.entries import Draft, Head, Notice, Reason
from ..core.typed import decode_json
from ..prompt.registry import Registry
from .compose import change_of_head
from .request import Request, RequestEncoder
from .row import Row
from .sent_body import sent_body
from .view import View

__all__ = ["NextRequest", "preview"]


class NextRequest(Struct, frozen=True):
    """The request that a turn would send first, and what it would show."""

    view: View
    request: Request
    breaks: Reason | None = None
    """Why its prefix would not be that of the request before; None where it would."""
    notices: tuple[str, ...] = ()
    """What the user would be told."""
    lacks: tuple[str, ...] = ()
    """What the request may have beyond this: it is known only when the turn runs."""

    @property
    def body(self) -> bytes:
        """What is sent: the bytes of the request, with the cache marks that its provider gets."""
        assert self.view.head is not None, "a request was rendered from a view with a head"
        return sent_body(self.request, self.view.head)


def preview(view: View, head: Head, drafts: Iterable[Draft], registry: Registry) -> NextRequest:
    """Return the request as it would be once `drafts` were appended under `head`."""
    shown, breaks = view.copy(), change_of_head(view.head, head)
    shown.head = head
    shown.reason = breaks or view.reason
    notices = []
    for place, draft in enumerate(drafts, shown.upto + 1):
        if draft.kind == "item":
            shown.add(Row.of_draft(draft, place), registry)
        elif draft.kind == "notice":
            notices.append(decode_json(draft.body, Notice).text)
    request = RequestEncoder(head, shown.cache_key).encode(
        shown.rows, epoch=shown.epoch, upto=shown.upto
    )
    return NextRequest(shown, request, breaks, tuple(notices))
