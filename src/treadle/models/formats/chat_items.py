"""Items as chat messages, one after the other.

Owns the state of the message that is still open. An assistant message grows in a
fixed order (reasoning, text, calls); what would have to go back starts a new one.
Reasoning waits for what it led to, and is left out where that never came.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field

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
    Refusal,
    ToolSearchCall,
    ToolSearchOutput,
    decode_item,
    text_of,
)
from ...core.wire import json_bytes
from .media import data_url
from .steps import StepOrder, answered_call_id, call_id_of
from .tools import flat_name, freeform_arguments

__all__ = ["ChatItems"]

_LONGEST_CALL_ID = 40
"""What OpenAI takes as the id of a call."""


class _Open(enum.IntEnum):
    """How far the open assistant message has got."""

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
    """Writes the messages of one body."""

    developer: str
    """The role of what the runtime says."""
    first: bool = True
    _open: _Open = _Open.NOTHING
    _order: StepOrder = field(default_factory=lambda: StepOrder(talk=False))
    _media: list[dict[str, object]] = field(default_factory=list)
    """What outputs showed: it follows them in a message of the user's."""
    _thoughts: list[str] = field(default_factory=list)

    def write(self, item: bytes) -> bytes:
        """The bytes that an encoded item adds."""
        return b"".join(map(self._write, self._order.put(decode_item(item))))

    def closing(self) -> bytes:
        """What would end the body now."""
        shown = json_bytes({"role": "user", "content": self._media}) if self._media else b""
        return _ENDS[self._open] + (b"," if shown else b"") + shown + b"]}"

    def copy(self) -> ChatItems:
        """A writer that goes on on its own from here."""
        order, media, thoughts = self._order.copy(), list(self._media), list(self._thoughts)
        return ChatItems(self.developer, self.first, self._open, order, media, thoughts)

    def _write(self, item: Item) -> bytes:
        match item:
            case FunctionCallOutput() | CustomToolCallOutput() | ToolSearchOutput() if (
                call := answered_call_id(item)
            ) is not None:
                return self._output(call, item)
            case FunctionCallOutput():
                return self._message("user", _standing_output(item))
            case Message(role="assistant"):
                return self._said(_spoken(item.content))
            case Message():
                role = self.developer if item.role == "developer" else item.role
                return self._message(role, _content(item.content))
            case Reasoning():
                self._thoughts += [text] if (text := _spoken(item.content or ())) else []
                return b""
            case FunctionCall() | CustomToolCall() | LocalShellCall() | ToolSearchCall():
                return self._call(item)
            case _:
                return b""

    def _said(self, text: str) -> bytes:
        if not text:
            return b""
        lead = self._assistant()
        self._open = _Open.TEXT
        return lead + b',"content":' + json_bytes(text)

    def _assistant(self) -> bytes:
        """The start of a message of the model's, up to what it thought."""
        thoughts, self._thoughts = self._thoughts, []
        opening: dict[str, str] = {"role": "assistant"}
        if thoughts:
            opening["reasoning_content"] = "\n\n".join(thoughts)
        return self._begin() + json_bytes(opening)[:-1]

    def _call(self, item: FunctionCall | CustomToolCall | LocalShellCall | ToolSearchCall) -> bytes:
        call = json_bytes(_call(item))
        if self._open is _Open.CALLS:
            return b"," + call
        joins = self._open is _Open.TEXT and not self._thoughts
        lead = b"" if joins else self._assistant() + b',"content":null'
        self._open = _Open.CALLS
        return lead + b',"tool_calls":[' + call

    def _output(
        self, call: str, item: FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput
    ) -> bytes:
        if isinstance(item, ToolSearchOutput):
            text, media = json_bytes(item.tools).decode(), []
        else:
            text, media = text_of(item.output), _media(item.output)
        told = {"role": "tool", "tool_call_id": _call_id(call), "content": text}
        self._thoughts.clear()
        lead = self._end() + self._comma()
        self._media += media
        return lead + json_bytes(told)

    def _message(self, role: str, content: object) -> bytes:
        if not content:
            return b""
        self._thoughts.clear()
        return self._begin() + json_bytes({"role": role, "content": content})

    def _begin(self) -> bytes:
        return self._end() + self._shown() + self._comma()

    def _end(self) -> bytes:
        end, self._open = _ENDS[self._open], _Open.NOTHING
        return end

    def _shown(self) -> bytes:
        if not self._media:
            return b""
        shown, self._media = self._media, []
        return self._comma() + json_bytes({"role": "user", "content": shown})

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
    """An id that every server takes; long ones are shortened, always to the same."""
    if len(call_id) <= _LONGEST_CALL_ID:
        return call_id
    return f"call_{hashlib.blake2b(call_id.encode(), digest_size=12).hexdigest()}"


def _spoken(parts: tuple[Part, ...]) -> str:
    texts = (
        part.refusal if isinstance(part, Refusal) else getattr(part, "text", "") for part in parts
    )
    return "\n".join(text for text in texts if text)


def _content(parts: tuple[Part, ...]) -> str | list[dict[str, object]]:
    """A user's content: plain text where it is only that."""
    told = [piece for piece in map(_piece, parts) if piece is not None]
    if len(told) == 1 and told[0]["type"] == "text":
        return str(told[0]["text"])
    return told


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
            text = _spoken((part,))
            return {"type": "text", "text": text} if text else None


def _media(output: Output) -> list[dict[str, object]]:
    if isinstance(output, str):
        return []
    shown = (part for part in output if isinstance(part, InputImage | InputAudio))
    return [piece for piece in map(_piece, shown) if piece is not None]


def _standing_output(item: FunctionCallOutput) -> str | list[dict[str, object]]:
    """An output that answers no call, told by name."""
    name = flat_name(item.name or "a tool", item.namespace)
    text = f"Output of {name}:\n{text_of(item.output)}"
    media = _media(item.output)
    return [{"type": "text", "text": text}, *media] if media else text
