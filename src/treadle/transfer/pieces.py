"""Pieces: entries to be, before they have a turn.

Owns what each piece is within a turn, how records that no model should see are kept,
and how blocks of other APIs become parts. Invariant: what is kept verbatim is volatile
and of a type of its own, so that no request ever carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..context.compose import import_draft, item_draft
from ..core.entries import Draft, Flags, Notice, Origin, control_draft
from ..core.items import (
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    Output,
    Part,
    ToolSearchOutput,
    Unknown,
)
from ..core.wire import json_bytes
from ..prompt.input import past_message
from ..prompt.registry import Registry

__all__ = [
    "KEPT_TYPE",
    "UNKNOWN_ACCOUNT",
    "Piece",
    "Place",
    "contextual",
    "foreign_piece",
    "is_kept",
    "item_piece",
    "kept",
    "milliseconds",
    "notice",
    "parts_of",
    "record_of",
    "stamped",
    "text_in",
    "user_piece",
]

KEPT_TYPE = "imported_record"
"""The item type of what is kept verbatim."""

UNKNOWN_ACCOUNT = "unknown"
"""Whose key made an encrypted part is not written down; the wrong one would refuse it for ever."""

Place: TypeAlias = Literal["input", "model", "output", "aside"]
_OUTPUTS = (FunctionCallOutput, CustomToolCallOutput, ToolSearchOutput)
_STRANGE = Origin(harness="import")
"""Where strange parts are from: nowhere, so that no request takes them along."""
_LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class Piece(Struct, frozen=True, gc=False):
    """A draft, and what it is within a turn: what opens it, or what is said and done in it."""

    draft: Draft
    place: Place = "aside"


class _Kept(Struct, tag_field="type", tag=KEPT_TYPE):
    format: str
    record: Raw


_kept = msgspec.json.Decoder(_Kept)
_KEPT_OPENING = f'{{"type":"{KEPT_TYPE}",'.encode()


def kept(record: bytes | Raw, source: str) -> Piece:
    """A record that is stored as it came: for exports and for later, not for models."""
    body = json_bytes(_Kept(source, Raw(record)))
    return Piece(Draft(body=body, flags=Flags.VOLATILE | Flags.HIDDEN))


def is_kept(piece: Piece) -> bool:
    """Whether a piece is a record, or a part of one, that was kept as it came."""
    return piece.draft.body.startswith(_KEPT_OPENING)


def record_of(body: bytes, source: str) -> bytes | None:
    """The record of that format that an item keeps; None when it keeps none."""
    try:
        found = _kept.decode(body)
    except msgspec.MsgspecError:
        return None
    return bytes(found.record) if found.format == source else None


def notice(text: str, source: str, level: Literal["info", "warning", "error"] = "info") -> Piece:
    """Something for people; models never see it."""
    return Piece(control_draft(Notice(level, text, source)))


def item_piece(item: Item, registry: Registry, origin: Origin | None = None) -> Piece:
    """An item in its place; context is known by its markers and by its role."""
    if isinstance(item, _OUTPUTS):
        return Piece(item_draft(item), "output")
    if not isinstance(item, Message) or item.role == "assistant":
        return Piece(item_draft(item, origin=origin), "model")
    draft = import_draft(item, registry)
    if item.role == "user" and not draft.flags:
        return Piece(draft, "input")
    return Piece(contextual(draft))


def foreign_piece(item: Item, registry: Registry, origin: Origin | None = None) -> Piece:
    """An item that others encoded, in its place; what it has beyond ours goes nowhere."""
    piece = item_piece(item, registry, origin)
    if piece.draft.origin is not None or not _is_strange(item):
        return piece
    draft = item_draft(item, origin=_STRANGE, flags=piece.draft.flags)
    return Piece(draft, piece.place)


def _is_strange(item: Item) -> bool:
    """Whether an item has parts or fields that we do not know."""
    parts = getattr(item, "content", None) or getattr(item, "output", None) or ()
    every = (item, *(parts if isinstance(parts, tuple) else ()))
    return any(isinstance(each, Unknown) or each.extra for each in every)


def contextual(draft: Draft, flags: Flags = Flags.NONE) -> Draft:
    """The draft as something that a runtime said."""
    return msgspec.structs.replace(draft, flags=draft.flags | Flags.CONTEXTUAL | flags)


def user_piece(parts: tuple[Part, ...], registry: Registry) -> Piece:
    """What a user said."""
    return item_piece(past_message(parts), registry)


def stamped(pieces: Iterable[Piece], key: str, time: int | None) -> tuple[Piece, ...]:
    """The pieces of one record under its key; the second and later ones are numbered."""
    return tuple(
        Piece(
            msgspec.structs.replace(
                piece.draft, source_id=f"{key}#{number}" if number > 1 else key, time=time
            ),
            piece.place,
        )
        for number, piece in enumerate(pieces, start=1)
    )


def parts_of(content: object, unknown: Callable[[dict[str, Any]], None]) -> tuple[Part, ...]:
    """Text and images of a content array in any of the usual spellings."""
    if isinstance(content, str):
        return (InputText(content),) if content.strip() else ()
    parts: list[Part] = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            parts.append(InputText(block))
        elif isinstance(block, dict):
            part = _part(block)
            if part is None:
                unknown(block)
            elif not isinstance(part, InputText) or part.text.strip():
                parts.append(part)
    return tuple(parts)


def _part(block: dict[str, Any]) -> Part | None:
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return InputText(text)
        case {
            "type": "image",
            "source": {"type": "base64", "media_type": str(kind), "data": str(d)},
        }:
            return InputImage(f"data:{kind};base64,{d}")
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return InputImage(url)
        case {"type": "image", "mimeType": str(kind), "data": str(data)}:
            return InputImage(f"data:{kind};base64,{data}")
        case {"type": "input_image" | "image_url", "image_url": str(url) | {"url": str(url)}}:
            return InputImage(url)
    return None


def text_in(content: object) -> Output:
    """A tool's answer: a text where it is nothing else, else its parts."""
    if isinstance(content, str):
        return content
    strange: list[dict[str, Any]] = []
    parts = parts_of(content, strange.append)
    parts += tuple(InputText(json_bytes(block).decode()) for block in strange)
    if len(parts) == 1 and isinstance(parts[0], InputText):
        return parts[0].text
    return parts or ""


def milliseconds(value: object) -> int | None:
    """A time in any of the usual spellings; None for what is none."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        # Not `timestamp()`: a float would lose the last millisecond now and then.
        since = moment - _EPOCH
        return max((since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000, 0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LATEST:
        # Seconds since 1970 have ten digits for a long time yet, milliseconds thirteen.
        return int(value if value >= 1e11 else value * 1000)
    return None


_EPOCH = datetime.fromtimestamp(0, UTC)
