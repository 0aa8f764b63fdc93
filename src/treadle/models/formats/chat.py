"""The Chat Completions format: items as messages.

Owns how calls, outputs and reasoning are written for servers that know messages only. An
assistant message grows in a fixed order (reasoning, text, calls); what would have to go back
starts a new one. Reasoning waits for the text or call it led to, and is left out if that never
came. Invariant: only what comes after a message closes it, so that written bytes never change.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import UNSET, Raw

from ...core.entries import Head
from ...core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputImage,
    Item,
    LocalShellCall,
    Message,
    Output,
    Part,
    Reasoning,
    ToolSearchCall,
    ToolSearchOutput,
    decode_item,
    text_of,
)
from ...core.wire import json_bytes
from ..contract import HeadPart
from .function_calls import (
    FlatTool,
    StepOrder,
    answered_call_id,
    call_id_of,
    data_url,
    flat_name,
    flat_tools,
    freeform_arguments,
    part_texts,
)

__all__ = ["ChatFormat", "ChatItems"]

_LONGEST_CALL_ID = 40
"""The longest id of a call that OpenAI accepts."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Writes bodies for Chat Completions."""

    name: str = "chat"

    def head_parts(self, head: Head, cache_key: str) -> Iterator[tuple[HeadPart, bytes]]:
        """Return the parameters, the tools, and the messages up to the system message."""
        tools = flat_tools(head.tools)
        yield "params", json_bytes(_params(head, cache_key, tools))[:-1]
        yield "tools", b',"tools":' + json_bytes([_tool(tool) for tool in tools]) if tools else b""
        system = {"role": "system", "content": head.instructions}
        yield "instructions", b',"messages":[' + (json_bytes(system) if head.instructions else b"")

    def writer(self, head: Head) -> ChatItems:
        """Return a writer of the messages after the system message."""
        developer = "developer" if head.provider == "openai" else "user"
        return ChatItems(developer=developer, first=not head.instructions)

    def with_cache_marks(self, body: bytes, _ends: tuple[int, ...], /) -> bytes:
        """Return the body unchanged: this API has no marks."""
        return body


def _params(head: Head, cache_key: str, tools: tuple[FlatTool, ...]) -> dict[str, object]:
    fields: dict[str, object] = {
        "model": head.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": head.effort,
        "service_tier": head.service_tier,
    }
    if head.provider == "openai":
        # Smaller servers refuse fields that they do not know.
        fields |= {
            "store": False,
            "verbosity": head.verbosity,
            "prompt_cache_key": cache_key or None,
        }
    if head.output_schema is not UNSET:
        schema = {"name": head.schema_name, "strict": True, "schema": Raw(head.output_schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if tools:
        fields["tool_choice"] = _tool_choice(head.tool_choice)
        fields["parallel_tool_calls"] = head.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _tool_choice(choice: str) -> object:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _tool(tool: FlatTool) -> dict[str, object]:
    function: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


class _Open(enum.IntEnum):
    """The last part of the open assistant message."""

    NOTHING = 0
    TEXT = 1
    CALLS = 2


_ENDS = {
    _Open.NOTHING: b"",
    _Open.TEXT: b"}",
    _Open.CALLS: b"]}",
}


@dataclass(slots=True)
class ChatItems:
    """Writes the messages of one body; one assistant message for the text and calls of a step."""

    developer: str
    """The role of messages from the runtime."""
    first: bool = True
    _open: _Open = _Open.NOTHING
    _order: StepOrder = field(default_factory=lambda: StepOrder(text_after_calls=False))
    _media: list[dict[str, object]] = field(default_factory=list)
    """The media of outputs: they follow the outputs in a user message."""
    _thoughts: list[str] = field(default_factory=list)

    def write(self, item: bytes) -> bytes:
        """Return the bytes that an encoded item adds."""
        return b"".join(map(self._write, self._order.add(decode_item(item))))

    def closing(self) -> bytes:
        """Return what would end the body now."""
        media = json_bytes({"role": "user", "content": self._media}) if self._media else b""
        return _ENDS[self._open] + (b"," if media else b"") + media + b"]}"

    def copy(self) -> ChatItems:
        """Return an independent writer that continues from here."""
        order, media, thoughts = self._order.copy(), list(self._media), list(self._thoughts)
        return ChatItems(self.developer, self.first, self._open, order, media, thoughts)

    def _write(self, item: Item) -> bytes:
        match item:
            case FunctionCallOutput() | CustomToolCallOutput() | ToolSearchOutput() if (
                call := answered_call_id(item)
            ) is not None:
                return self._write_output(call, item)
            case FunctionCallOutput():
                return self._write_message("user", _standalone_output(item))
            case Message(role="assistant"):
                return self._write_text(_joined_text(item.content))
            case Message():
                role = self.developer if item.role == "developer" else item.role
                return self._write_message(role, _content(item.content))
            case Reasoning():
                self._thoughts += [text] if (text := _joined_text(item.content or ())) else []
                return b""
            case FunctionCall() | CustomToolCall() | LocalShellCall() | ToolSearchCall():
                return self._write_call(item)
            case _:
                return b""

    def _write_text(self, text: str) -> bytes:
        if not text:
            return b""
        lead = self._begin_assistant()
        self._open = _Open.TEXT
        return lead + b',"content":' + json_bytes(text)

    def _begin_assistant(self) -> bytes:
        """Return the start of an assistant message, up to its reasoning."""
        thoughts, self._thoughts = self._thoughts, []
        opening: dict[str, str] = {"role": "assistant"}
        if thoughts:
            opening["reasoning_content"] = "\n\n".join(thoughts)
        return self._begin() + json_bytes(opening)[:-1]

    def _write_call(
        self, item: FunctionCall | CustomToolCall | LocalShellCall | ToolSearchCall
    ) -> bytes:
        call = json_bytes(_call(item))
        if self._open is _Open.CALLS:
            return b"," + call
        joins = self._open is _Open.TEXT and not self._thoughts
        lead = b"" if joins else self._begin_assistant() + b',"content":null'
        self._open = _Open.CALLS
        return lead + b',"tool_calls":[' + call

    def _write_output(
        self, call: str, item: FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput
    ) -> bytes:
        if isinstance(item, ToolSearchOutput):
            text, media = json_bytes(item.tools).decode(), []
        else:
            text, media = text_of(item.output), _media(item.output)
        message = {"role": "tool", "tool_call_id": _call_id(call), "content": text}
        self._thoughts.clear()
        lead = self._end() + self._comma()
        self._media += media
        return lead + json_bytes(message)

    def _write_message(self, role: str, content: object) -> bytes:
        if not content:
            return b""
        self._thoughts.clear()
        return self._begin() + json_bytes({"role": role, "content": content})

    def _begin(self) -> bytes:
        return self._end() + self._write_media() + self._comma()

    def _end(self) -> bytes:
        end, self._open = _ENDS[self._open], _Open.NOTHING
        return end

    def _write_media(self) -> bytes:
        if not self._media:
            return b""
        media, self._media = self._media, []
        return self._comma() + json_bytes({"role": "user", "content": media})

    def _comma(self) -> bytes:
        lead, self.first = b"" if self.first else b",", False
        return lead


def _call(item: FunctionCall | CustomToolCall | LocalShellCall | ToolSearchCall) -> object:
    match item:
        case FunctionCall():
            name, arguments = flat_name(item.name, item.namespace), item.arguments
        case CustomToolCall():
            name, arguments = flat_name(item.name, item.namespace), freeform_arguments(item.input)
        case LocalShellCall():
            name, arguments = "local_shell", json_bytes(item.action).decode()
        case ToolSearchCall():
            name, arguments = "tool_search", bytes(item.arguments).decode()
    function = {"name": name, "arguments": arguments or "{}"}
    return {"id": _call_id(call_id_of(item) or ""), "type": "function", "function": function}


def _call_id(call_id: str) -> str:
    """Return an id that every server accepts; a long one always becomes the same short one."""
    if len(call_id) <= _LONGEST_CALL_ID:
        return call_id
    return f"call_{hashlib.blake2b(call_id.encode(), digest_size=12).hexdigest()}"


def _joined_text(parts: tuple[Part, ...]) -> str:
    return "\n".join(text for text in part_texts(parts) if text)


def _content(parts: tuple[Part, ...]) -> str | list[dict[str, object]]:
    """Return a user's content: plain text where there is nothing else."""
    pieces = [piece for piece in map(_piece, parts) if piece is not None]
    if len(pieces) == 1 and pieces[0]["type"] == "text":
        return str(pieces[0]["text"])
    return pieces


def _piece(part: Part) -> dict[str, object] | None:
    match part:
        case InputImage():
            image: dict[str, object] = {"url": part.image_url}
            if part.detail is not None:
                image["detail"] = "high" if part.detail == "original" else part.detail
            return {"type": "image_url", "image_url": image}
        case InputAudio():
            sound = data_url(part.audio_url)
            if sound is None:
                return {"type": "text", "text": part.audio_url}
            kind = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}
            name = sound.mime.rpartition("/")[2]
            audio = {"data": sound.data, "format": kind.get(name, name)}
            return {"type": "input_audio", "input_audio": audio}
        case _:
            text = _joined_text((part,))
            return {"type": "text", "text": text} if text else None


def _media(output: Output) -> list[dict[str, object]]:
    if isinstance(output, str):
        return []
    media = (part for part in output if isinstance(part, InputImage | InputAudio))
    return [piece for piece in map(_piece, media) if piece is not None]


def _standalone_output(item: FunctionCallOutput) -> str | list[dict[str, object]]:
    """Return an output that answers no call, with the name of its tool."""
    name = flat_name(item.name or "a tool", item.namespace)
    text = f"Output of {name}:\n{text_of(item.output)}"
    media = _media(item.output)
    return [{"type": "text", "text": text}, *media] if media else text
