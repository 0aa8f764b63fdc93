"""Plain JSONL: one message a line, `{"thread", "id"?, "role", "content", "time"?}`.

Owns what such a line means, and how an entry is written as one. Invariant: a line that
was written from an entry is read back as that entry; `item`, `origin` and `flags` are
there only where role and content would not say it all.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..context.compose import is_recordable, item_draft
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
from .pieces import (
    Piece,
    foreign_piece,
    item_piece,
    kept,
    milliseconds,
    notice,
    parts_of,
    record_of,
    user_piece,
)
from .rollout import iso

__all__ = [
    "FORMAT",
    "PlainLine",
    "chained",
    "decode_line",
    "is_part",
    "line_of",
    "plain_pieces",
    "time_of",
]

FORMAT = "jsonl"
_PART = "jsonl.part"
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})

_FLAGS = {flag.name.lower(): flag for flag in Flags if flag.name}


class PlainLine(Struct, kw_only=True, omit_defaults=True):
    """A line; `kind`, `visible`, `item`, `origin` and `flags` are of our own exports."""

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


class _Threaded(Struct):
    thread: Any = None


_line = msgspec.json.Decoder(PlainLine)
_threaded = msgspec.json.Decoder(_Threaded)


def decode_line(data: bytes) -> PlainLine:
    """The line; one of another shape has neither role nor content, and is kept."""
    try:
        return _line.decode(data)
    except msgspec.ValidationError:
        thread = _threaded.decode(data).thread
        return PlainLine(thread=thread if isinstance(thread, str | int) else None)


def chained(before: str, data: bytes) -> str:
    """The key of a line without an id: its bytes, and those of all before it in its thread."""
    return hashlib.blake2b(data, key=before.encode()[:64], digest_size=12).hexdigest()


def plain_pieces(line: PlainLine, data: bytes, registry: Registry) -> list[Piece]:
    """What a line becomes; what can be neither shown nor told is kept."""
    pieces: list[Piece] = []
    if line.kind == "item" and line.visible:
        if line.item is UNSET:
            pieces = _spoken(line, registry)
        else:
            pieces = _exported(line, decode_item(line.item), registry)
    return pieces or [kept(data, FORMAT)]


def is_part(entry: Entry) -> bool:
    """Whether an entry keeps a part of the line whose message stands before it."""
    return record_of(entry.body, _PART) is not None


def time_of(line: PlainLine) -> int | None:
    """When a line's message was said."""
    return milliseconds(line.time)


def _spoken(line: PlainLine, registry: Registry) -> list[Piece]:
    """A message by its role, and what of it is neither text nor image."""
    strange: list[dict[str, Any]] = []
    parts = parts_of(line.content, strange.append)
    if not parts or line.role not in _ROLES:
        return []
    return [_said(line.role, parts, registry), *(kept(json_bytes(b), _PART) for b in strange)]


def _said(role: str, parts: tuple[Part, ...], registry: Registry) -> Piece:
    if role == "user":
        return user_piece(parts, registry)
    if role == "assistant":
        said = tuple(
            OutputText(text=part.text) if isinstance(part, InputText) else part for part in parts
        )
        return item_piece(Message(role="assistant", content=said), registry)
    if role == "tool":
        return _answer_to_nobody(text_of(parts), registry)
    # Whoever wrote the file may not instruct our models.
    return notice(text_of(parts), role)


def _answer_to_nobody(text: str, registry: Registry) -> Piece:
    """The output of a call that the file does not tell: it can be found, and no request has it."""
    call = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    return item_piece(FunctionCallOutput(call_id=f"call_{call}", output=text), registry)


def _exported(line: PlainLine, item: Item, registry: Registry) -> list[Piece]:
    """An item as it was; its flags are those it had."""
    # Whoever wrote the file may not instruct our models.
    instructs = isinstance(item, Message) and item.role not in ("user", "assistant")
    if isinstance(item, Unknown) or instructs or not is_recordable(item):
        return []
    given = [] if line.flags is UNSET else line.flags
    flags = Flags(sum({_FLAGS.get(name, Flags.NONE) for name in given}))
    piece = foreign_piece(item, registry, line.origin)
    origin = line.origin or piece.draft.origin
    draft, place = item_draft(item, origin=origin, flags=flags), piece.place
    if isinstance(item, Message) and item.role == "user":
        place = "aside" if flags & Flags.CONTEXTUAL else "input"
    return [Piece(draft, place)]


def line_of(entry: Entry, thread: str, registry: Registry, *, visible: bool = True) -> bytes:
    """An entry as a line."""
    if (record := record_of(entry.body, FORMAT)) is not None and entry.kind == "item":
        return record
    line = PlainLine(
        thread=thread, id=entry.source_id or entry.id, time=iso(entry.time), visible=visible
    )
    if entry.kind != "item":
        line.role, line.kind, line.item = "control", entry.kind, Raw(entry.body)
        return json_bytes(line)
    item = entry.item
    line.role, line.content = _role(item), _words(item)
    read = [piece.draft for piece in plain_pieces(line, b"", registry)]
    if [(made.body, made.flags, made.origin) for made in read] == [_essence(entry)]:
        return json_bytes(line)
    line.item, line.origin = Raw(_with_id(item, entry)), entry.origin
    line.flags = [name for name, flag in _FLAGS.items() if flag & entry.flags]
    return json_bytes(line)


def _essence(entry: Entry) -> tuple[bytes, Flags, Origin | None]:
    return entry.body, entry.flags, entry.origin


def _with_id(item: Item, entry: Entry) -> bytes:
    """The item's bytes; an id of ours, which they do not hold, is put back."""
    if entry.origin is not None or isinstance(item, Unknown) or not hasattr(item, "id"):
        return entry.body
    return encode_item(msgspec.structs.replace(item, id=entry.id))


def _role(item: Item) -> str:
    if isinstance(item, Message):
        return item.role
    name = item.__struct_config__.tag
    return "tool" if str(name).endswith("_output") else "assistant"


def _words(item: Item) -> str:
    """What there is to read of an item."""
    match item:
        case Message():
            return text_of(item.content)
    for name in ("output", "content", "summary"):
        if value := getattr(item, name, None):
            return text_of(value)
    return str(getattr(item, "arguments", None) or getattr(item, "input", None) or "")
