"""Composition: what fills the window of a model, by kind.

Owns which kind each part of a request is. Invariants: every token is in exactly one part; the
figures are estimates, and where a provider has counted they are scaled to what it said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..core.entries import Head
from ..core.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    Item,
    LocalShellCall,
    Message,
    Part,
    Reasoning,
    encode_item,
)
from ..core.text import approx_tokens
from ..core.typed import decode_json
from ..core.wire import Json
from .row import Row
from .tokens import estimate_bytes, estimate_item
from .view import View

__all__ = [
    "KINDS",
    "Composition",
    "ContextKind",
    "ContextPart",
    "compose_window",
    "head_parts",
    "row_parts",
]

ContextKind: TypeAlias = Literal[
    "instructions",
    "tools",
    "context",
    "summaries",
    "user",
    "assistant",
    "reasoning",
    "calls",
    "outputs",
    "images",
    "other",
]
KINDS: tuple[ContextKind, ...] = ContextKind.__args__  # type: ignore[attr-defined]
"""In the order in which they are shown."""

_BUILT_IN = "built in"
_MCP = "mcp__"


class ContextPart(Struct, frozen=True):
    """A part of what fills the window."""

    kind: ContextKind
    label: str
    """The group of tools, or the fragment; empty where a kind has one part."""
    tokens: int
    count: int = 1
    """How many tools, fragments or items it is made of."""


class Composition(Struct, frozen=True):
    """What fills the window."""

    parts: tuple[ContextPart, ...]
    tokens: int
    window: int | None = None
    """How much can be used of it in practice."""
    counted: bool = False
    """Whether a provider has counted; else all is estimated."""

    @property
    def free(self) -> int | None:
        """Tokens that are free; None where nobody knows the window."""
        return None if self.window is None else max(self.window - self.tokens, 0)

    def by_kind(self) -> dict[ContextKind, int]:
        """Return the tokens of each kind that there is, in the order of `KINDS`."""
        sums = {kind: sum(p.tokens for p in self.parts if p.kind == kind) for kind in KINDS}
        return {kind: tokens for kind, tokens in sums.items() if tokens}


def compose_window(view: View, window: int | None = None) -> Composition:
    """Return what fills the window of the next request that shows `view`, before its input."""
    parts: dict[tuple[ContextKind, str], ContextPart] = {}
    for part in (*head_parts(view.head), *(p for row in view.rows for p in row_parts(row))):
        if part.tokens:
            before = parts.get((part.kind, part.label), ContextPart(part.kind, part.label, 0, 0))
            parts[part.kind, part.label] = replace(
                before, tokens=before.tokens + part.tokens, count=before.count + part.count
            )
    ordered = sorted(parts.values(), key=lambda p: (KINDS.index(p.kind), -p.tokens, p.label))
    estimated = sum(part.tokens for part in ordered)
    if view.count is None or not estimated:
        return Composition(tuple(ordered), estimated, window)
    since = sum(row.tokens for row in view.rows[view.count.rows :])
    counted = view.count.usage.total_tokens + since
    return Composition(tuple(_scale(ordered, counted, estimated)), counted, window, counted=True)


def _scale(parts: list[ContextPart], counted: int, estimated: int) -> Iterator[ContextPart]:
    """Yield the parts so that they add up to `counted`."""
    before = given = 0
    for part in parts:
        before += part.tokens
        upto = round(counted * before / estimated)
        yield replace(part, tokens=upto - given)
        given = upto


class _Spec(Struct):
    type: str = ""
    name: str = ""


def head_parts(head: Head | None) -> Iterator[ContextPart]:
    """Yield the parts of a head."""
    if head is None:
        return
    yield ContextPart("instructions", "", approx_tokens(len(head.instructions.encode())))
    for tool in head.tools:
        yield ContextPart("tools", _group(tool), approx_tokens(len(bytes(tool))))


def _group(tool: Json) -> str:
    """Return where a tool comes from: its namespace, its server, its provider."""
    spec = decode_json(tool, _Spec)
    if spec.type == "namespace":
        return spec.name
    if spec.name.startswith(_MCP):
        return spec.name.removeprefix(_MCP).partition("__")[0]
    return _BUILT_IN if spec.name else "of the provider"


def row_parts(row: Row) -> Iterator[ContextPart]:
    """Yield the parts of a row."""
    item = row.item
    total = row.tokens or estimate_item(item, len(row.body))
    if row.summary:
        yield ContextPart("summaries", "", total)
        return
    images = _image_parts(item)
    pictures = sum(map(_tokens, images))
    if images:
        yield ContextPart("images", "", min(pictures, total), len(images))
        total = max(total - pictures, 0)
    marks = [mark for mark in row.fragments if mark.part is not None]
    if isinstance(item, Message) and marks:
        for mark in marks:
            at = -1 if mark.part is None else mark.part
            part = item.content[at] if 0 <= at < len(item.content) else None
            tokens = min(_tokens(part), total) if part is not None else 0
            yield ContextPart("context", mark.id, tokens)
            total -= tokens
    if isinstance(item, Message) and marks and len(marks) >= len(item.content):
        yield ContextPart("context", marks[-1].id, total, 0)  # what surrounds them
    elif row.contextual:
        yield ContextPart("context", marks[0].id if marks else "", total)
    else:
        yield ContextPart(_kind(item), "", total)


def _kind(item: Item) -> ContextKind:
    match item:
        case Message(role="assistant"):
            return "assistant"
        case Message(role="user") | AgentMessage():
            return "user"
        case Message():
            return "context"
        case Reasoning():
            return "reasoning"
        case FunctionCall() | CustomToolCall() | LocalShellCall():
            return "calls"
        case FunctionCallOutput() | CustomToolCallOutput():
            return "outputs"
        case _:
            return "other"


def _image_parts(item: Item) -> list[InputImage]:
    content: Iterable[Part] = ()
    if isinstance(item, Message):
        content = item.content
    elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
        content = () if isinstance(item.output, str) else item.output
    return [part for part in content if isinstance(part, InputImage)]


def _tokens(part: Part) -> int:
    """Return what a part of a message is worth by itself, whoever says it."""
    alone, empty = (Message(role="assistant", content=content) for content in ((part,), ()))
    return approx_tokens(max(estimate_bytes(alone) - len(encode_item(empty)), 0))
