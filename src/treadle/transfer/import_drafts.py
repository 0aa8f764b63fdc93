"""Drafts of imported entries, before they have a turn.

Owns the place of each draft within a turn, how records that no model should see are
stored, and how content blocks of other APIs become parts. Invariant: a record that is
stored verbatim is volatile and of an item type of its own, so that no request carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..context.compose import import_draft, item_draft
from ..core.entries import Draft, Flags, Notice, Origin, Rollback, control_draft
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
    "UNKNOWN_ACCOUNT",
    "VERBATIM_TYPE",
    "DraftPlace",
    "PlacedDraft",
    "as_context",
    "draft_of_foreign_item",
    "draft_of_item",
    "draft_of_user",
    "is_verbatim",
    "notice_draft",
    "output_of",
    "parts_of",
    "rollback_draft",
    "rollback_turns",
    "verbatim_draft",
    "verbatim_record",
    "with_source",
]

VERBATIM_TYPE = "imported_record"
"""The item type of a record that is stored verbatim."""

UNKNOWN_ACCOUNT = "unknown"
"""The account of an encrypted part whose key is not known; any real account would be wrong."""

DraftPlace: TypeAlias = Literal["input", "model", "output", "aside"]
"""What a draft is within a turn: its input, of the model, of a tool, or none of these."""

_OUTPUTS = (FunctionCallOutput, CustomToolCallOutput, ToolSearchOutput)
_FOREIGN = Origin(harness="import")
"""The origin of unknown parts: no provider has it, so that no request carries them."""


class PlacedDraft(Struct, frozen=True, gc=False):
    """A draft and its place within a turn."""

    draft: Draft
    place: DraftPlace = "aside"


class _Verbatim(Struct, tag_field="type", tag=VERBATIM_TYPE):
    format: str
    record: Raw


_verbatim = msgspec.json.Decoder(_Verbatim)
_VERBATIM_OPENING = f'{{"type":"{VERBATIM_TYPE}",'.encode()


def verbatim_draft(record: bytes | Raw, source: str) -> PlacedDraft:
    """Return a draft that stores a record as it is: for exports, not for models."""
    body = json_bytes(_Verbatim(source, Raw(record)))
    return PlacedDraft(Draft(body=body, flags=Flags.VOLATILE | Flags.HIDDEN))


def is_verbatim(placed: PlacedDraft) -> bool:
    """Return whether a draft stores a record, or a part of one, as it is."""
    return placed.draft.body.startswith(_VERBATIM_OPENING)


def verbatim_record(body: bytes, source: str) -> bytes | None:
    """Return the record of the format `source` that an item stores; None when it stores none."""
    try:
        found = _verbatim.decode(body)
    except msgspec.MsgspecError:
        return None
    return bytes(found.record) if found.format == source else None


def notice_draft(
    text: str, source: str, level: Literal["info", "warning", "error"] = "info"
) -> PlacedDraft:
    """Return a draft of a notice for people; models never see it."""
    return PlacedDraft(control_draft(Notice(level, text, source)))


def rollback_draft(turns: int) -> PlacedDraft:
    """Return a draft that hides the last `turns`; only the log knows which entries they are."""
    return PlacedDraft(control_draft(Rollback(0, turns)))


def rollback_turns(placed: PlacedDraft) -> int:
    """Return how many turns a draft hides; 0 for a draft that is not a rollback."""
    if placed.draft.kind != "rollback":
        return 0
    return msgspec.json.decode(placed.draft.body, type=Rollback).turns or 0


def draft_of_item(item: Item, registry: Registry, origin: Origin | None = None) -> PlacedDraft:
    """Return an item in its place; context is known by its markers and by its role."""
    if isinstance(item, _OUTPUTS):
        return PlacedDraft(item_draft(item), "output")
    if not isinstance(item, Message) or item.role == "assistant":
        return PlacedDraft(item_draft(item, origin=origin), "model")
    draft = import_draft(item, registry)
    if item.role == "user" and not draft.flags:
        return PlacedDraft(draft, "input")
    return PlacedDraft(as_context(draft))


def draft_of_foreign_item(
    item: Item, registry: Registry, origin: Origin | None = None
) -> PlacedDraft:
    """Return an item that others encoded in its place; its unknown parts go to no provider."""
    placed = draft_of_item(item, registry, origin)
    if placed.draft.origin is not None or not _has_unknown_parts(item):
        return placed
    draft = item_draft(item, origin=_FOREIGN, flags=placed.draft.flags)
    return PlacedDraft(draft, placed.place)


def _has_unknown_parts(item: Item) -> bool:
    parts = getattr(item, "content", None) or getattr(item, "output", None) or ()
    every = (item, *(parts if isinstance(parts, tuple) else ()))
    return any(isinstance(each, Unknown) or each.extra for each in every)


def draft_of_user(parts: tuple[Part, ...], registry: Registry) -> PlacedDraft:
    """Return a message of the user."""
    return draft_of_item(past_message(parts), registry)


def as_context(draft: Draft, flags: Flags = Flags.NONE) -> Draft:
    """Return the draft as context that a runtime added."""
    return msgspec.structs.replace(draft, flags=draft.flags | Flags.CONTEXTUAL | flags)


def with_source(
    drafts: Iterable[PlacedDraft], key: str, time: int | None
) -> tuple[PlacedDraft, ...]:
    """Return the drafts of one record with its key and time; all but the first are numbered."""
    return tuple(
        PlacedDraft(
            msgspec.structs.replace(
                placed.draft, source_id=f"{key}#{number}" if number > 1 else key, time=time
            ),
            placed.place,
        )
        for number, placed in enumerate(drafts, start=1)
    )


def parts_of(content: object, unknown: Callable[[dict[str, Any]], None]) -> tuple[Part, ...]:
    """Return the text and images of a content array in any of the usual spellings."""
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


def output_of(content: object) -> Output:
    """Return a tool's output: a text if it is nothing else, or its parts."""
    if isinstance(content, str):
        return content
    unknown: list[dict[str, Any]] = []
    parts = parts_of(content, unknown.append)
    parts += tuple(InputText(json_bytes(block).decode()) for block in unknown)
    if len(parts) == 1 and isinstance(parts[0], InputText):
        return parts[0].text
    return parts or ""
