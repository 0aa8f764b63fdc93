"""Transcript repair: what is changed of a conversation before somebody is shown it.

Owns which provider needs which repair, and what becomes of a message that was never
answered. Invariants: what is stored is never touched, only what is shown; and what was
shown once is not shown otherwise later.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..context.mending import Repair, repair_row
from ..context.row import Row
from ..context.rules import normalise
from ..core.entries import own_parts
from ..core.items import Message, Part
from ..core.provenance import InputProvenance
from ..prompt.announcements import TurnAborted, Unanswered

__all__ = [
    "MARKER",
    "Merged",
    "merge_unanswered",
    "note_for",
    "repair_rows",
    "repairs_for",
    "unanswered_message",
]

MARKER = (
    "[An earlier user message that was never answered; it is kept as context only. "
    "Go on with the active request below.]"
)
"""Stands before an unanswered message where it is told inside the next one."""

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


def repair_rows(rows: Sequence[Row], repairs: Sequence[Repair]) -> list[Row]:
    """`rows` as they are shown, every call with one output."""
    shown = (repair_row(row, repairs) for row in rows)
    return normalise([row for row in shown if row is not None])


class Merged(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that may tell an unanswered message before itself."""

    prompt: str
    merged: bool = False
    shown: bool = True
    """Whether the message itself is worth a place in what is shown; it stays in the log."""


def merge_unanswered(
    earlier: tuple[Part, ...], prompt: str, *, provenance: InputProvenance | None = None
) -> Merged:
    """`prompt` behind an unanswered message, for those who cannot be shown it by itself.

    What says nothing, and what no person said, is not told; nor what the prompt repeats.
    """
    from .describing import describe_parts

    text = describe_parts(earlier)
    if not text or (prompt and not _is_personal(provenance)):
        return Merged(prompt=prompt, shown=False)
    if f"\n{text}\n" in f"\n{prompt}\n":
        return Merged(prompt=prompt)
    return Merged(prompt=f"{MARKER}\n{text}\n\n{prompt}", merged=True)


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
    """What is said between an unanswered message in the view and the prompt of the next turn."""
    row = unanswered_message(rows)
    if row is None or not isinstance(row.item, Message):
        return None
    parts = own_parts(row.item.content, row.fragments)
    told = merge_unanswered(parts, prompt, provenance=row.provenance)
    return Unanswered() if told.merged else None


def _is_personal(provenance: InputProvenance | None) -> bool:
    return provenance is None or provenance.kind == "external_user"
