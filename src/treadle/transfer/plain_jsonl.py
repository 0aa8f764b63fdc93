"""Plain JSONL: one message a line, `{"thread", "id"?, "role", "content", "time"?}`.

Owns what such a line means, and how an entry is written as one. Invariant: a line that
was written from an entry is read back as that entry; `item`, `origin` and `flags` are
there only where role and content do not say everything.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..context.compose import is_recordable
from ..core.entries import Entry, Flags, Origin
from ..core.items import (
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    OutputText,
    Part,
    Unknown,
    decode_item,
    encode_item,
    text_of,
)
from ..core.wire import json_bytes
from ..prompt.registry import Registry
from .import_drafts import (
    PlacedDraft,
    draft_of_foreign_item,
    draft_of_item,
    draft_of_user,
    draft_of_words,
    notice_draft,
    parts_of,
    verbatim_draft,
    verbatim_record,
)
from .jsonl import iso_time

__all__ = [
    "FORMAT",
    "PlainLine",
    "chain_key",
    "decode_line",
    "encode_entry",
    "is_part",
    "plain_drafts",
]

FORMAT = "jsonl"
_PART = "jsonl.part"
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})

_FLAGS = {flag.name.lower(): flag for flag in Flags if flag.name}


class PlainLine(Struct, kw_only=True, omit_defaults=True):
    """A line; only our own exports have `kind`, `visible`, `item`, `origin` and `flags`."""

    thread: str | int | None = None
    id: str | int | None = None
    role: str = ""
    content: str | list[Any] | None = None
    time: str | int | float | None = None
    kind: str = "item"
    visible: bool = True
    item: Raw | UnsetType = UNSET
    origin: Origin | None = None
    flags: list[str] | UnsetType = UNSET


class _ThreadField(Struct):
    thread: Any = None


_line = msgspec.json.Decoder(PlainLine)
_thread_field = msgspec.json.Decoder(_ThreadField)


def decode_line(data: bytes) -> PlainLine:
    """Decode a line; one of another shape has neither role nor content."""
    try:
        return _line.decode(data)
    except msgspec.ValidationError:
        thread = _thread_field.decode(data).thread
        return PlainLine(thread=thread if isinstance(thread, str | int) else None)


def chain_key(before: str, data: bytes) -> str:
    """Return the key of a line without an id, from its bytes and the key of the line before."""
    return hashlib.blake2b(data, key=before.encode()[:64], digest_size=12).hexdigest()


def plain_drafts(line: PlainLine, data: bytes, registry: Registry) -> list[PlacedDraft]:
    """Return the drafts of a line; one that no model can read is stored verbatim."""
    drafts: list[PlacedDraft] = []
    if line.kind == "item" and line.visible:
        if line.item is UNSET:
            drafts = _message_drafts(line, registry)
        else:
            drafts = _item_drafts(line, decode_item(line.item), registry)
    return drafts or [verbatim_draft(data, FORMAT)]


def is_part(entry: Entry) -> bool:
    """Return whether an entry stores a part of the line whose message is the entry before."""
    return verbatim_record(entry.body, _PART) is not None


def _message_drafts(line: PlainLine, registry: Registry) -> list[PlacedDraft]:
    """Return a message by its role, and its blocks that are neither text nor image."""
    unknown: list[dict[str, Any]] = []
    parts = parts_of(line.content, unknown.append)
    if not parts or line.role not in _ROLES:
        return []
    message = _message_draft(line.role, parts, registry)
    return [message, *(verbatim_draft(json_bytes(block), _PART) for block in unknown)]


def _message_draft(role: str, parts: tuple[Part, ...], registry: Registry) -> PlacedDraft:
    if role == "user":
        return draft_of_user(parts, registry)
    if role == "assistant":
        content = tuple(
            OutputText(text=part.text) if isinstance(part, InputText) else part for part in parts
        )
        return draft_of_item(Message(role="assistant", content=content), registry)
    if role == "tool":
        # The file does not have the call: the output can be found, but no request has it.
        text = text_of(parts)
        call = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        return draft_of_item(FunctionCallOutput(call_id=f"call_{call}", output=text), registry)
    # Whoever wrote the file may not instruct our models.
    return notice_draft(text_of(parts), role)


def _item_drafts(line: PlainLine, item: Item, registry: Registry) -> list[PlacedDraft]:
    """Return the item of one of our exports, with the flags that it had."""
    # Whoever wrote the file may not instruct our models.
    instructs = isinstance(item, Message) and item.role not in ("user", "assistant")
    if isinstance(item, Unknown) or instructs or not is_recordable(item):
        return []
    given = [] if line.flags is UNSET else line.flags
    flags = Flags(sum({_FLAGS.get(name, Flags.NONE) for name in given}))
    if isinstance(item, Message) and item.role == "user" and not flags & Flags.CONTEXTUAL:
        placed = draft_of_words(item, registry)
    else:
        placed = draft_of_foreign_item(item, registry, line.origin)
    draft = msgspec.structs.replace(placed.draft, flags=placed.draft.flags | flags)
    is_context = isinstance(item, Message) and draft.flags & Flags.CONTEXTUAL
    return [PlacedDraft(draft, "aside" if is_context else placed.place)]


def encode_entry(entry: Entry, thread: str, registry: Registry, *, visible: bool = True) -> bytes:
    """Return an entry as a line."""
    if (record := verbatim_record(entry.body, FORMAT)) is not None and entry.kind == "item":
        return record
    line = PlainLine(
        thread=thread, id=entry.source_id or entry.id, time=iso_time(entry.time), visible=visible
    )
    if entry.kind != "item":
        line.role, line.kind, line.item = "control", entry.kind, Raw(entry.body)
        return json_bytes(line)
    item = entry.item
    line.role, line.content = _role_of(item), _text_of(item)
    drafts = [placed.draft for placed in plain_drafts(line, b"", registry)]
    read_back = [(draft.body, draft.flags, draft.origin) for draft in drafts]
    if read_back == [(entry.body, entry.flags, entry.origin)]:
        return json_bytes(line)
    line.item, line.origin = Raw(_with_id(item, entry)), entry.origin
    line.flags = [name for name, flag in _FLAGS.items() if flag & entry.flags]
    return json_bytes(line)


def _with_id(item: Item, entry: Entry) -> bytes:
    """Return the item's bytes with its id, which the log does not store in them."""
    if entry.origin is not None or isinstance(item, Unknown) or not hasattr(item, "id"):
        return entry.body
    return encode_item(msgspec.structs.replace(item, id=entry.id))


def _role_of(item: Item) -> str:
    if isinstance(item, Message):
        return item.role
    name = item.__struct_config__.tag
    return "tool" if str(name).endswith("_output") else "assistant"


def _text_of(item: Item) -> str:
    """Return the readable text of an item."""
    if isinstance(item, Message):
        return text_of(item.content)
    for name in ("output", "content", "summary"):
        if value := getattr(item, name, None):
            return text_of(value)
    return str(getattr(item, "arguments", None) or getattr(item, "input", None) or "")
