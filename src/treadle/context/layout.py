"""Layouts: a view or a request as one line per item, for people and for tests.

Owns that wording. Invariant: a layout is a pure function of what it shows, so that
a change of context shows up as a small difference between two texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from ..core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    Unknown,
    decode_item,
    item_type,
    text_of,
)
from ..core.typed import decode_json
from ..prompt.registry import Registry
from .request import Request
from .row import Row
from .tokens import estimate_item

__all__ = ["Line", "layout", "request_lines", "row_lines"]

_WIDTH = 60


class Line(Struct, frozen=True):
    """One item of a layout."""

    position: int
    kind: str
    """A role, ``call``, ``output``, ``summary``, or the item's type."""
    what: str
    tokens: int
    seq: int | None = None
    fragments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.position:02d} {self.kind:<10} {self.what}".rstrip()


class _Body(Struct):
    input: list[Raw] | None = None


def layout(request: Request, registry: Registry) -> str:
    """Return a request as text, one line per item."""
    return "".join(f"{line}\n" for line in request_lines(request, registry))


def request_lines(request: Request, registry: Registry) -> list[Line]:
    """The items of a request, read from its bytes where those are items."""
    items = decode_json(request.body, _Body).input
    if items is None:
        return row_lines(request.rows, registry)
    seqs = (row.seq for row in request.rows)
    return list(_lines(zip(map(decode_item, items), seqs, strict=True), registry))


def row_lines(rows: Sequence[Row], registry: Registry) -> list[Line]:
    """The rows of a view; what is context is told by their flags."""
    lines = _lines(((row.item, row.seq) for row in rows), registry)
    return [_correct(line, row) for line, row in zip(lines, rows, strict=True)]


def _correct(line: Line, row: Row) -> Line:
    if row.node is not None:
        covers = f"{row.node.first}-{row.node.last}"
        return msgspec.structs.replace(line, kind="summary", what=f"{covers}: {line.what}")
    if row.contextual or not line.fragments:
        return line
    item = row.item
    if isinstance(item, Message) and any(mark.part is not None for mark in row.fragments):
        return line
    # A person typed something that looks like a fragment.
    text = text_of(item.content) if isinstance(item, Message) else ""
    return msgspec.structs.replace(line, what=_short(text), fragments=())


def _lines(items: Iterable[tuple[Item, int | None]], registry: Registry) -> Iterator[Line]:
    called: dict[str, str] = {}
    for position, (item, seq) in enumerate(items):
        kind, what, fragments = _describe(item, called, registry)
        yield Line(position, kind, what, estimate_item(item), seq, fragments)


def _describe(
    item: Item, called: dict[str, str], registry: Registry
) -> tuple[str, str, tuple[str, ...]]:
    match item:
        case Message():
            return _message(item, registry)
        case FunctionCall(name=name, arguments=given, call_id=call_id):
            called[call_id] = name
            return "call", f"{name}({_short(given)})", ()
        case CustomToolCall(name=name, input=given, call_id=call_id):
            called[call_id] = name
            return "call", f"{name}({_short(given)})", ()
        case LocalShellCall():
            return "call", "local_shell", ()
        case FunctionCallOutput() | CustomToolCallOutput():
            name = called.get(item.call_id or "", item.name or "")
            return "output", f"{name} {_short(text_of(item.output))}".strip(), ()
        case Unknown():
            return "unknown", item_type(item), ()
        case _:
            return item_type(item), "", ()


def _message(item: Message, registry: Registry) -> tuple[str, str, tuple[str, ...]]:
    names = [registry.recognise(item.role, getattr(part, "text", "")) for part in item.content]
    if not any(names):
        return item.role, _short(text_of(item.content)), ()
    found = tuple(name or "text" for name in names)
    return item.role, " ".join(f"<{name}>" for name in found), found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
