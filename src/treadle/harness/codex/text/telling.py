"""Telling: what the rows of a view say, as quotes.

Owns how items become words: texts as they are, tool calls by name, media and what
only its origin can read as a note that it is left out. Invariant: a pure function of
the rows, in their order; nothing in it is an id of ours or a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ....context.row import Row
from ....core.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    ImageGenerationCall,
    InputImage,
    InputText,
    Item,
    LocalShellCall,
    Message,
    Output,
    OutputText,
    Part,
    PlainText,
    Reasoning,
    Refusal,
    SummaryText,
    ToolSearchCall,
    ToolSearchOutput,
    Unknown,
    WebSearchCall,
    item_type,
)
from ....core.wire import json_bytes
from .quoting import clean_text, guard_text, quoted_name
from .shapes import json_shape
from .sizing import Quote, cut_end

__all__ = ["ToolContentMode", "quote_rows"]

ToolContentMode: TypeAlias = Literal["elide", "preserve"]
"""Whether what goes in and out of tools is left out, or told as far as it is safe."""

_NO_IMAGE = "[image omitted]"


class _Said(Struct, frozen=True):
    speaker: str
    parts: Iterable[str]
    images: tuple[InputImage, ...] = ()


class _Call(Struct, frozen=True):
    """A tool call of any kind."""

    tool: str
    type: str
    input: Any
    call_id: str | None = None
    namespace: str | None = None


def quote_rows(rows: Iterable[Row], *, mode: ToolContentMode, cap: int) -> Iterator[Quote]:
    """What `rows` say, each text of `cap` characters at most; silent rows are left out."""
    teller = _Teller(mode, cap)
    for place, row in enumerate(rows):
        said = teller.said(row)
        text = guard_text("\n".join(filter(None, said.parts)))
        if text:
            yield Quote(place, said.speaker, text, said.images)


class _Teller:
    """Remembers which tool a call was for, so that its result can say so."""

    def __init__(self, mode: ToolContentMode, cap: int) -> None:
        self.preserve = mode == "preserve"
        self.cap = cap
        self.tools: dict[str, str] = {}

    def said(self, row: Row) -> _Said:
        item = row.item
        if (call := _call(item)) is not None:
            return _Said("assistant", self.calling(call))
        match item:
            case Message():
                speaker = "summary" if row.node is not None else quoted_name(item.role)
                return self.content(speaker, item.content)
            case AgentMessage():
                sender = json_bytes({"id": quoted_name(item.author)}).decode()
                return self.content(f"agent sender={sender}", item.content)
            case FunctionCallOutput() | CustomToolCallOutput() | ToolSearchOutput():
                return self.result(item)
            case Reasoning():
                return _Said("assistant", ())
            case ImageGenerationCall():
                return _Said("assistant", (_NO_IMAGE,))
            case _:
                speaker = quoted_name(row.shape.role) if row.shape.role else "item"
                return _Said(speaker, (_left_out(item_type(item)),))

    def calling(self, call: _Call) -> Iterator[str]:
        tool = quoted_name(call.tool)
        if call.call_id:
            self.tools[call.call_id] = tool
        if not self.preserve:
            yield f"tool call: {tool} [input omitted]"
            return
        metadata = {"type": call.type, "namespace": call.namespace}
        told = {key: value for key, value in metadata.items() if value}
        yield f"tool call: {tool}"
        yield self.text(_sorted_json({**told, "inputShape": json_shape(call.input)}))

    def result(self, item: FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput) -> _Said:
        own = None if isinstance(item, ToolSearchOutput) else item.name
        tool = self.tools.get(item.call_id or "") or (quoted_name(own) if own else "")
        title = f"tool result: {tool}" if tool else "tool result"
        if isinstance(item, ToolSearchOutput) or not self.preserve:
            return _Said("tool", (f"{title} [content omitted]",))
        content = self.content("tool", item.output)
        return _Said("tool", (title, *content.parts), content.images)

    def content(self, speaker: str, content: Output) -> _Said:
        if isinstance(content, str):
            return _Said(speaker, (self.text(content),))
        images = tuple(part for part in content if isinstance(part, InputImage))
        return _Said(speaker, map(self.part, content), images)

    def part(self, part: Part) -> str:
        match part:
            case InputText() | OutputText() | PlainText() | SummaryText():
                return self.text(part.text)
            case Refusal():
                return self.text(part.refusal)
            case InputImage():
                return _NO_IMAGE
            case Unknown():
                return _left_out(part.type)
            case _:
                return _left_out(str(part.__struct_config__.tag))

    def text(self, text: str) -> str:
        return cut_end(clean_text(text), self.cap)


def _call(item: Item) -> _Call | None:
    match item:
        case FunctionCall():
            given, space = item.arguments, item.namespace
            return _Call(item.name, "function_call", _decoded(given), item.call_id, space)
        case CustomToolCall():
            space = item.namespace
            return _Call(item.name, "custom_tool_call", item.input, item.call_id, space)
        case LocalShellCall():
            action = msgspec.to_builtins(item.action)
            return _Call("local_shell", "local_shell_call", action, item.call_id)
        case ToolSearchCall():
            given = bytes(item.arguments).decode(errors="replace")
            return _Call("tool_search", "tool_search_call", _decoded(given), item.call_id)
        case WebSearchCall():
            return _Call("web_search", "web_search_call", msgspec.to_builtins(item.action))
        case _:
            return None


def _decoded(arguments: str) -> Any:
    """The value that arguments hold; their text where they hold none."""
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments


def _left_out(kind: str) -> str:
    return f"[{quoted_name(kind)} content omitted]"


def _sorted_json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
