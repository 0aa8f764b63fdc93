"""Transcript repair: what is changed of a conversation before somebody is shown it.

Owns which provider needs which repair, and what becomes of a message that was never
answered. Invariants: what is stored is never touched, only what is shown; and each row
is repaired by itself, so that a request still begins with the bytes of the one before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..context.row import Row, shape_of
from ..context.rules import normalise
from ..entries import own_parts
from ..items import FunctionCall, Item, Message, Part, Unknown, encode_item
from ..prompt.events import TurnAborted
from ..prompt.unanswered import Unanswered
from ..provenance import InputProvenance
from ..wire import json_bytes
from .describing import described

__all__ = [
    "MARKER",
    "Merged",
    "RepairPolicy",
    "mended",
    "merged",
    "note_for",
    "policy_for",
    "repaired",
    "unanswered",
]

MARKER = (
    "[An earlier user message that was never answered; it is kept as context only. "
    "Go on with the active request below.]"
)
"""Stands before an unanswered message where it is told inside the next one."""

CallIds: TypeAlias = Literal["kept", "plain", "nine"]

_FITTING = {
    "plain": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "nine": re.compile(r"[A-Za-z0-9]{9}"),
}
_SAID = frozenset((TurnAborted.id, Unanswered.id))
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RepairPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is repaired for one provider.

    Beside these, for all: calls and outputs are paired (`context.rules`), opaque parts go
    home only and media go to models that take them (`context.outbound`), and each format
    joins the turns of one speaker where its API wants that.
    """

    call_ids: CallIds = "kept"
    """``plain``: letters, digits, ``_`` and ``-``; ``nine``: nine letters and digits."""
    reasoning: bool = True
    """Whether reasoning is shown to whom it came from."""
    object_arguments: bool = False
    """Whether arguments must be a JSON object, because the server reads them."""


_BY_API = {
    "chat": RepairPolicy(object_arguments=True),
    "messages": RepairPolicy(call_ids="plain"),
}
_BY_PROVIDER = {
    "mistral": RepairPolicy(call_ids="nine", reasoning=False, object_arguments=True),
    "groq": RepairPolicy(reasoning=False, object_arguments=True),
}


def policy_for(provider: str, api: str) -> RepairPolicy:
    """What is repaired for requests to `provider` through `api`."""
    if api == "chat" and provider in _BY_PROVIDER:
        return _BY_PROVIDER[provider]
    return _BY_API.get(api, RepairPolicy())


def mended(row: Row, policy: RepairPolicy) -> Row | None:
    """A row as it is shown; None for one that is not. The very same row where it is fine."""
    if row.shape.type == "reasoning":
        return row if policy.reasoning else None
    call_id = row.shape.call_id
    fits = call_id is None or _call_id(call_id, policy.call_ids) == call_id
    if fits and not (policy.object_arguments and row.shape.type == "function_call"):
        return row
    item = _mended(row.item, policy)
    if item is None:
        return row
    body = encode_item(item)
    return msgspec.structs.replace(row, body=body, shape=shape_of(body))


def repaired(rows: Sequence[Row], policy: RepairPolicy) -> list[Row]:
    """`rows` as a provider with `policy` is shown them, every call with one output."""
    shown = (mended(row, policy) for row in rows)
    return normalise([row for row in shown if row is not None])


class Merged(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that may tell an unanswered message before itself."""

    prompt: str
    merged: bool = False
    shown: bool = True
    """Whether the message itself is worth a place in what is shown; it stays in the log."""


def merged(
    earlier: tuple[Part, ...], prompt: str, *, provenance: InputProvenance | None = None
) -> Merged:
    """`prompt` behind an unanswered message, for harnesses that cannot be shown it by itself.

    What says nothing, and what no person said, is not told; nor what the prompt repeats.
    """
    text = described(earlier)
    if not text or (prompt and not _is_personal(provenance)):
        return Merged(prompt=prompt, shown=False)
    if f"\n{text}\n" in f"\n{prompt}\n":
        return Merged(prompt=prompt)
    return Merged(prompt=f"{MARKER}\n{text}\n\n{prompt}", merged=True)


def unanswered(rows: Sequence[Row]) -> Row | None:
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
    row = unanswered(rows)
    if row is None or not isinstance(row.item, Message):
        return None
    parts = own_parts(row.item.content, row.fragments)
    told = merged(parts, prompt, provenance=row.provenance)
    return Unanswered() if told.merged else None


def _is_personal(provenance: InputProvenance | None) -> bool:
    return provenance is None or provenance.kind == "external_user"


def _mended(item: Item, policy: RepairPolicy) -> Item | None:
    """The item with a fitting id and readable arguments; None where nothing changes."""
    if isinstance(item, Unknown):
        return None
    changes: dict[str, str] = {}
    call_id = getattr(item, "call_id", None)
    if call_id is not None and _call_id(call_id, policy.call_ids) != call_id:
        changes["call_id"] = _call_id(call_id, policy.call_ids)
    if policy.object_arguments and isinstance(item, FunctionCall):
        readable = _arguments(item.arguments)
        changes |= {} if readable == item.arguments else {"arguments": readable}
    return msgspec.structs.replace(item, **changes) if changes else None


def _call_id(call_id: str, wanted: CallIds) -> str:
    """An id that fits: itself, else a digest of it, the same for a call and its output."""
    if wanted == "kept" or _FITTING[wanted].fullmatch(call_id):
        return call_id
    digest = hashlib.blake2b(call_id.encode(), digest_size=12).hexdigest()
    return digest[:9] if wanted == "nine" else f"call_{digest}"


def _arguments(arguments: str) -> str:
    try:
        _object.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return json_bytes({"arguments": arguments}).decode()
    return arguments
