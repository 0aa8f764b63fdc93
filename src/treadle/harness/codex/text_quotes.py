"""Quotes: the rows of a view as quoted text.

Owns how items become text (messages as they are, tool calls by name, media as a note) and
how foreign text is made safe inside a prompt: controls, terminal escapes and hidden
characters are removed; delimiters, headers and mentions get a full-width character.
Invariants: pure functions of the rows, in their order, without ids or times of Treadle's;
`guard_text` keeps the length, and its result contains no delimiter and no mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ...context.row import Row
from ...core.items import (
    Action,
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
    encode_action,
    item_type,
)
from ...core.provenance import plain_text
from ...core.wire import json_bytes

__all__ = [
    "CLOSING",
    "LABELS",
    "OPENING",
    "REQUEST",
    "Quote",
    "ToolContentMode",
    "clean_text",
    "cut_end",
    "guard_text",
    "json_shape",
    "quote_rows",
    "quoted_name",
]

ToolContentMode: TypeAlias = Literal["elide", "preserve"]
"""Whether the inputs and outputs of tools are omitted, or quoted as far as that is safe."""

OPENING = "<conversation_context>"
CLOSING = "</conversation_context>"
REQUEST = "Current user request:"

LABELS = ("user", "assistant", "developer", "system", "tool", "summary", "agent", "item")
"""The speakers that a header may name."""

_NO_IMAGE = "[image omitted]"
_LONGEST_NAME = 128
_BRACKETS = str.maketrans("[]", "()")

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # colours and movements
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)"  # titles, links, device strings
    r"|\x1b[ -/]*+[0-~]"
)
_MENTIONED = r"(?=[A-Za-z0-9_:-])"
_UNSAFE = (
    re.compile(r"<(?=[\s/]*+conversation_context)", re.IGNORECASE),
    re.compile(r"current\s++user\s++request\s*+:", re.IGNORECASE),
    re.compile(rf"\${_MENTIONED}"),
    re.compile(rf"(?<=\[)@{_MENTIONED}"),
    re.compile(
        rf"^[^\S\n]*+\[(?=[^\S\n]*+(?:{'|'.join(LABELS)})\b[^\n]*\][^\S\n]*+$)",
        re.IGNORECASE | re.MULTILINE,
    ),
)
"""Each match ends with the character that is replaced."""

_FULL_WIDTH = 0xFEE0
"""The distance of an ASCII character to its full-width form."""


class Quote(Struct, frozen=True):
    """The text of one row, under the name of its speaker."""

    row: int
    """The position of the row."""
    speaker: str
    text: str
    images: tuple[InputImage, ...] = ()

    @property
    def header(self) -> str:
        """Return the line that names the speaker, with its line end."""
        return f"[{self.speaker}]\n"

    @property
    def size(self) -> int:
        """Return the number of characters, without the blank line before it."""
        return len(self.header) + len(self.text)

    def __str__(self) -> str:
        return self.header + self.text


def quote_rows(rows: Iterable[Row], *, mode: ToolContentMode, cap: int) -> Iterator[Quote]:
    """Return the quotes of `rows`, with at most `cap` characters per text; skip empty rows."""
    quoter = _Quoter(mode, cap)
    for place, row in enumerate(rows):
        speech = quoter.speech(row)
        text = guard_text("\n".join(filter(None, speech.parts)))
        if text:
            yield Quote(place, speech.speaker, text, speech.images)


def clean_text(text: str) -> str:
    """Return `text` trimmed, without controls, terminal escapes and hidden characters.

    Every kind of line break becomes a line feed.
    """
    return plain_text("\n".join(_ESCAPE.sub("", text).splitlines())).strip()


def guard_text(text: str) -> str:
    """Return clean `text` without anything that reads as a delimiter, a header or a mention."""
    for pattern in _UNSAFE:
        text = pattern.sub(_widen_last, text)
    return text


def _widen_last(found: re.Match[str]) -> str:
    return found[0][:-1] + chr(ord(found[0][-1]) + _FULL_WIDTH)


def quoted_name(text: str) -> str:
    """Return `text` as a name: on one line and without brackets; ``unknown`` if it is empty."""
    line = " ".join(clean_text(text).translate(_BRACKETS).split())
    return guard_text(line[:_LONGEST_NAME]) or "unknown"


def cut_end(text: str, cap: int) -> str:
    """Return the first `cap` characters of `text`, and how many were cut."""
    return text if len(text) <= cap else f"{text[:cap]}\n[truncated {len(text) - cap} chars]"


class _Speech(Struct, frozen=True):
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


class _Quoter:
    """Turns rows into text; it remembers the tool of each call, so that its result names it."""

    def __init__(self, mode: ToolContentMode, cap: int) -> None:
        self.preserve = mode == "preserve"
        self.cap = cap
        self.tools: dict[str, str] = {}

    def speech(self, row: Row) -> _Speech:
        item = row.item
        if (call := _call(item)) is not None:
            return _Speech("assistant", self.call(call))
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
                return _Speech("assistant", ())
            case ImageGenerationCall():
                return _Speech("assistant", (_NO_IMAGE,))
            case _:
                speaker = quoted_name(row.shape.role) if row.shape.role else "item"
                return _Speech(speaker, (_omission_note(item_type(item)),))

    def call(self, call: _Call) -> Iterator[str]:
        tool = quoted_name(call.tool)
        if call.call_id:
            self.tools[call.call_id] = tool
        if not self.preserve:
            yield f"tool call: {tool} [input omitted]"
            return
        metadata = {"type": call.type, "namespace": call.namespace}
        known = {key: value for key, value in metadata.items() if value}
        yield f"tool call: {tool}"
        yield self.text(_sorted_json({**known, "inputShape": json_shape(call.input)}))

    def result(self, item: FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput) -> _Speech:
        own = None if isinstance(item, ToolSearchOutput) else item.name
        tool = self.tools.get(item.call_id or "") or (quoted_name(own) if own else "")
        title = f"tool result: {tool}" if tool else "tool result"
        if isinstance(item, ToolSearchOutput) or not self.preserve:
            return _Speech("tool", (f"{title} [content omitted]",))
        content = self.content("tool", item.output)
        return _Speech("tool", (title, *content.parts), content.images)

    def content(self, speaker: str, content: Output) -> _Speech:
        if isinstance(content, str):
            return _Speech(speaker, (self.text(content),))
        images = tuple(part for part in content if isinstance(part, InputImage))
        return _Speech(speaker, map(self.part, content), images)

    def part(self, part: Part) -> str:
        match part:
            case InputText() | OutputText() | PlainText() | SummaryText():
                return self.text(part.text)
            case Refusal():
                return self.text(part.refusal)
            case InputImage():
                return _NO_IMAGE
            case Unknown():
                return _omission_note(part.type)
            case _:
                return _omission_note(str(part.__struct_config__.tag))

    def text(self, text: str) -> str:
        return cut_end(clean_text(text), self.cap)


def _call(item: Item) -> _Call | None:
    match item:
        case FunctionCall():
            arguments, space = _decode_arguments(item.arguments), item.namespace
            return _Call(item.name, "function_call", arguments, item.call_id, space)
        case CustomToolCall():
            space = item.namespace
            return _Call(item.name, "custom_tool_call", item.input, item.call_id, space)
        case LocalShellCall():
            return _Call("local_shell", "local_shell_call", _action(item.action), item.call_id)
        case ToolSearchCall():
            arguments = _decode_arguments(bytes(item.arguments).decode(errors="replace"))
            return _Call("tool_search", "tool_search_call", arguments, item.call_id)
        case WebSearchCall():
            return _Call("web_search", "web_search_call", _action(item.action))
        case _:
            return None


def _action(action: Action | None) -> Any:
    return None if action is None else _decode_arguments(encode_action(action).decode())


def _decode_arguments(arguments: str) -> Any:
    """Return the JSON value of arguments; their text if they are no JSON."""
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments


def _omission_note(kind: str) -> str:
    return f"[{quoted_name(kind)} content omitted]"


def _sorted_json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


_DEEPEST, _BROADEST, _LONGEST_KEY = 6, 32, 64
_MORE = "…"


def json_shape(value: object, depth: int = 0) -> Any:
    """Return the shape of a JSON value: its keys, sorted and bounded, but no leaf value."""
    match value:
        case None:
            return "[null]"
        case bool():
            return "[boolean]"
        case int() | float():
            return "[number]"
        case dict():
            return _object_shape(value, depth) if depth < _DEEPEST else "[object]"
        case list() | tuple():
            return _array_shape(value, depth) if depth < _DEEPEST else "[array]"
        case _:
            return "[string]"


def _object_shape(members: dict[Any, Any], depth: int) -> dict[str, Any]:
    names = sorted(map(str, members))
    shown = {key[:_LONGEST_KEY]: json_shape(members[key], depth + 1) for key in names[:_BROADEST]}
    return {**shown, **({_MORE: _rest(members)} if len(names) > _BROADEST else {})}


def _array_shape(elements: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    shown = [json_shape(element, depth + 1) for element in elements[:_BROADEST]]
    return [*shown, *([_rest(elements)] if len(elements) > _BROADEST else [])]


def _rest(values: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> str:
    return f"[{len(values) - _BROADEST} more]"
