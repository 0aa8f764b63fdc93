"""Transcript repair: what is changed of a conversation before somebody is shown it.

Owns which provider needs which repair, and what becomes of a message that was never
answered. Invariants: what is stored is never touched, only what is shown; and what was
shown once is not shown otherwise later.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..context.mending import Repair
from ..context.row import Row
from ..core.entries import own_parts
from ..core.items import Message, text_of
from ..core.provenance import InputProvenance
from ..prompt.announcements import TurnAborted, Unanswered

__all__ = ["note_for", "repairs_for", "unanswered_message"]

_BY_API: dict[str, tuple[Repair, ...]] = {
    "chat": ("object_arguments",),
    "messages": ("plain_call_ids",),
}
_BY_PROVIDER: dict[str, tuple[Repair, ...]] = {
    "groq": ("no_reasoning", "object_arguments"),
    "mistral": ("nine_call_ids", "no_reasoning", "object_arguments"),
}
"""Servers with the Chat Completions API that refuse what others pass over."""

_SAID = frozenset((TurnAborted.id, Unanswered.id))


def repairs_for(provider: str, api: str) -> tuple[Repair, ...]:
    """What is repaired in requests to `provider` through `api`.

    Beside these, for all: calls and outputs are paired (`context.rules`), opaque parts go
    home only and media go to models that take them (`context.outbound`), and each format
    joins the turns of one speaker where its API wants that.
    """
    if api == "chat" and provider in _BY_PROVIDER:
        return _BY_PROVIDER[provider]
    return _BY_API.get(api, ())


def unanswered_message(rows: Sequence[Row]) -> Row | None:
    """The message that ends a conversation without an answer, if one does.

    A message whose fate was told already is none.
    """
    for row in reversed(rows):
        if not row.contextual:
            spoken = row.shape.type == "message" and row.shape.role == "user"
            return row if spoken and isinstance(row.item, Message) else None
        if any(mark.id in _SAID for mark in row.fragments):
            return None
    return None


def note_for(rows: Sequence[Row], prompt: str) -> Unanswered | None:
    """What is said between an unanswered message in the view and the prompt of the next turn.

    Nothing of a message that says nothing, that no person said, or that the prompt repeats.
    """
    row = unanswered_message(rows)
    if row is None or not isinstance(row.item, Message):
        return None
    parts = own_parts(row.item.content, row.fragments)
    text, has_media = text_of(parts), any(not hasattr(part, "text") for part in parts)
    if not (text or has_media) or (prompt and not _is_personal(row.provenance)):
        return None
    is_repeated = not has_media and f"\n{text.strip()}\n" in f"\n{prompt}\n"
    return None if is_repeated else Unanswered()


def _is_personal(provenance: InputProvenance | None) -> bool:
    return provenance is None or provenance.kind == "external_user"
