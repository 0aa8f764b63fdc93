"""Drafts of imported entries, before they have a turn.

Owns the place of each draft within a turn, how records that no model should see are
stored, and how content blocks of other APIs become parts. Invariants: a record that is
stored verbatim is volatile and of an item type of its own, so that no request carries it;
no draft speaks as the developer or the system, none holds a marker in the user's role, and
what a file calls sealed goes to no provider, whatever origin the file claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..context.compose import item_draft
from ..core.entries import Draft, Flags, FragmentMark, Notice, Origin, Rollback, control_draft
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
from ..core.typed import decode_json
from ..core.wire import json_bytes
from ..prompt.announcements import ImportedContext
from ..prompt.input import past_message
from ..prompt.markers import Markers, Vocabulary
from ..prompt.registry import Registry
from ..prompt.signals import quote_parts

__all__ = [
    "REMINDER_TAGS",
    "UNKNOWN_ACCOUNT",
    "VERBATIM_TYPE",
    "DraftPlace",
    "ImportedHistory",
    "PlacedDraft",
    "as_context",
    "as_history",
    "draft_of_foreign_item",
    "draft_of_item",
    "draft_of_user",
    "draft_of_words",
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
"""The account of sealed parts of a file; any real account would be a claim of the file."""

DraftPlace: TypeAlias = Literal["input", "model", "output", "aside"]
"""What a draft is within a turn: its input, of the model, of a tool, or none of these."""

REMINDER_TAGS = (
    *("system-reminder", "local-command-caveat", "local-command-stdout"),
    *("local-command-stderr", "bash-input", "bash-stdout", "bash-stderr", "task-notification"),
    *("ide_opened_file", "ide_selection", "ide_diagnostics", "user-memory-input"),
)
"""Tags of Claude Code, whose models read them as words of the harness."""

_OUTPUTS = (FunctionCallOutput, CustomToolCallOutput, ToolSearchOutput)
_FOREIGN = Origin(account=UNKNOWN_ACCOUNT, harness="import")
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
    return decode_json(placed.draft.body, Rollback).turns or 0


def draft_of_item(item: Item, registry: Registry, origin: Origin | None = None) -> PlacedDraft:
    """Return an item in its place; context is known by its markers and by its role."""
    if isinstance(item, ToolSearchOutput):
        # Whoever wrote the file may not define tools for our models.
        item = msgspec.structs.replace(item, tools=())
    if isinstance(item, _OUTPUTS):
        return PlacedDraft(item_draft(item), "output")
    if not isinstance(item, Message) or item.role == "assistant":
        return PlacedDraft(item_draft(item, origin=_sealed_origin(origin)), "model")
    history = as_history(item, registry)
    draft = item_draft(history.message)
    if item.role == "user" and not history.quotations:
        return PlacedDraft(draft, "input")
    return PlacedDraft(as_context(draft))


def draft_of_words(message: Message, registry: Registry) -> PlacedDraft:
    """Return what a person said, also where it reads as if a runtime had said it."""
    history = as_history(message, registry, lambda _: False)
    origin = _FOREIGN if _has_unknown_parts(message) else None
    draft = item_draft(history.message, origin=origin)
    return PlacedDraft(msgspec.structs.replace(draft, fragments=history.marks), "input")


class ImportedHistory(Struct, frozen=True):
    """A message of a file as one in the user's role."""

    message: Message
    quotations: tuple[int, ...] = ()
    """The parts that a runtime wrote."""

    @property
    def marks(self) -> tuple[FragmentMark, ...]:
        """The marks of these parts."""
        return tuple(FragmentMark("imported", part=number) for number in self.quotations)


def as_history(
    message: Message, registry: Registry, is_told: Callable[[str], bool] | None = None
) -> ImportedHistory:
    """Return a message of a file, in which nothing reads as a marker.

    What a runtime said stands in it as a quotation: all of a developer's message, and the
    texts for which `is_told` holds; without it those that the registry knows.
    """
    words = _import_vocabulary(registry.vocabulary)
    content: list[Part] = []
    quotations: list[int] = []

    def quotation(part: Part) -> str:
        if not isinstance(part, InputText):
            return ""
        if message.role == "user" and ImportedContext.is_written(part.text, words):
            return part.text  # an export of an import
        told = is_told(part.text) if is_told else registry.recognise("user", part.text) is not None
        if message.role == "user" and not told:
            return ""
        return ImportedContext(sender=message.role, text=part.text).render(words)

    for quoted, group in groupby(message.content, quotation):
        parts = tuple(group)
        if quoted:
            quotations += range(len(content), len(content) + len(parts))
        content += [InputText(quoted)] * len(parts) if quoted else quote_parts(parts, words)
    if message.role != "user" or tuple(content) != message.content:
        message = past_message(tuple(content))
    return ImportedHistory(message, tuple(quotations))


@lru_cache(maxsize=16)
def _import_vocabulary(words: Vocabulary) -> Vocabulary:
    """Return the markers that no file may use: ours, and those of the agents we read."""
    for tag in REMINDER_TAGS:
        words = words.with_own(Markers(f"<{tag}>", f"</{tag}>"), ())
    return words


def _sealed_origin(origin: Origin | None) -> Origin | None:
    """Return an origin that no request has: a file can claim any."""
    return origin and msgspec.structs.replace(origin, account=UNKNOWN_ACCOUNT)


def draft_of_foreign_item(
    item: Item, registry: Registry, origin: Origin | None = None
) -> PlacedDraft:
    """Return an item that others encoded in its place; its unknown parts go to no provider."""
    placed = draft_of_item(item, registry, origin)
    if placed.draft.origin is not None or not _has_unknown_parts(item):
        return placed
    draft = msgspec.structs.replace(placed.draft, origin=_FOREIGN)
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
