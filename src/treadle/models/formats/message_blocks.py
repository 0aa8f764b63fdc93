"""Items as content blocks, one after the other.

Owns whose message is open. The results of calls come first in the user's message that
follows them, because nothing may stand between calls and results. Thinking waits for
what it led to: a message that ends with it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

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
    Unknown,
    decode_item,
    text_of,
)
from ...core.patterns import regex
from ...core.wire import json_bytes
from .media import data_url
from .steps import StepOrder, answered_call_id, call_id_of
from .thinking import thinking_block
from .tools import INPUT, flat_name

__all__ = ["GO_ON", "MessageBlocks"]

GO_ON = "Go on."
"""Stands behind an answer that was cut off: the model may not have the last word."""

Speaker: TypeAlias = Literal["", "user", "assistant"]
Block: TypeAlias = dict[str, object]

_ODD_ID = regex(r"[^a-zA-Z0-9_-]")
_object = msgspec.json.Decoder(dict[str, Raw])


@dataclass(slots=True)
class MessageBlocks:
    """Writes the messages of one body."""

    _speaker: Speaker = ""
    _order: StepOrder = field(default_factory=lambda: StepOrder(talk=True))
    _thoughts: list[bytes] = field(default_factory=list)

    def write(self, item: bytes) -> bytes:
        """The bytes that an encoded item adds."""
        return b"".join(map(self._write, self._order.put(decode_item(item))))

    def closing(self) -> bytes:
        """What would end the body now."""
        match self._speaker:
            case "":
                return b"]}"
            case "user":
                return b"]}]}"
            case "assistant":
                return b"]}," + json_bytes({"role": "user", "content": [_text(GO_ON)]}) + b"]}"

    def copy(self) -> MessageBlocks:
        """A writer that goes on on its own from here."""
        return MessageBlocks(self._speaker, self._order.copy(), list(self._thoughts))

    def _write(self, item: Item) -> bytes:
        match item:
            case Message(role="assistant"):
                return self._add("assistant", map(json_bytes, _texts(item.content)))
            case Message():
                return self._add("user", map(json_bytes, _blocks(item.content)))
            case Reasoning():
                self._thoughts += [] if (block := thinking_block(item)) is None else [block]
                return b""
            case FunctionCall() | CustomToolCall() | LocalShellCall() | ToolSearchCall():
                return self._add("assistant", [json_bytes(_call(item))])
            case FunctionCallOutput() | CustomToolCallOutput() | ToolSearchOutput():
                return self._add("user", map(json_bytes, _result(item)))
            case Unknown():
                # A block of a kind we do not know, back where it came from.
                return self._add("assistant", [bytes(item.payload)])
            case _:
                return b""

    def _add(self, speaker: Speaker, blocks: Iterable[bytes]) -> bytes:
        added = list(blocks)
        if not added:
            return b""
        thoughts, self._thoughts = self._thoughts, []
        told = b",".join([*thoughts, *added] if speaker == "assistant" else added)
        if speaker == self._speaker:
            return b"," + told
        end = b"]}," if self._speaker else b""
        self._speaker = speaker
        return end + b'{"role":"%s","content":[' % speaker.encode() + told


def _call(item: FunctionCall | CustomToolCall | LocalShellCall | ToolSearchCall) -> Block:
    match item:
        case FunctionCall():
            name, given = flat_name(item.name, item.namespace), _arguments(item.arguments)
        case CustomToolCall():
            name, given = flat_name(item.name, item.namespace), {INPUT: item.input}
        case LocalShellCall():
            name, given = "local_shell", item.action
        case ToolSearchCall():
            name, given = "tool_search", item.arguments
    return {"type": "tool_use", "id": _id(call_id_of(item)), "name": name, "input": given}


def _arguments(arguments: str) -> object:
    """Arguments as the object they must be, in the bytes the model chose."""
    try:
        _object.decode(arguments or "{}")
    except msgspec.DecodeError:
        return {"arguments": arguments}
    return Raw((arguments or "{}").encode())


def _result(item: FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput) -> list[Block]:
    call = answered_call_id(item)
    if isinstance(item, ToolSearchOutput):
        content: object = json_bytes(item.tools).decode()
    elif call is None:
        name = flat_name(item.name or "a tool", getattr(item, "namespace", None))
        return [_text(f"Output of {name}:"), *_parts(item.output)]
    else:
        content = _result_content(item.output)
    result: Block = {"type": "tool_result", "tool_use_id": _id(call)}
    return [result | ({"content": content} if content else {})]


def _result_content(output: Output) -> object:
    """Plain text where it is only that, else blocks."""
    blocks = _parts(output)
    return blocks if any(block["type"] != "text" for block in blocks) else text_of(output)


def _parts(output: Output) -> list[Block]:
    if isinstance(output, str):
        return [_text(output)] if output.strip() else []
    return _blocks(output)


def _id(call_id: str | None) -> str:
    return _ODD_ID.sub("_", call_id or "")


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _texts(parts: tuple[Part, ...]) -> list[Block]:
    """The words in `parts`; the API refuses blank ones."""
    texts = (
        part.refusal if isinstance(part, Refusal) else getattr(part, "text", "") for part in parts
    )
    return [_text(text) for text in texts if text.strip()]


def _blocks(parts: tuple[Part, ...]) -> list[Block]:
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, InputImage):
            blocks.append(_image(part.image_url))
        elif isinstance(part, InputAudio):
            blocks.append(_text("(sound that cannot be sent to this model)"))
        else:
            blocks += _texts((part,))
    return blocks


def _image(url: str) -> Block:
    inline = data_url(url)
    if inline is None:
        source: Block = {"type": "url", "url": url}
    else:
        source = {"type": "base64", "media_type": inline.mime, "data": inline.data}
    return {"type": "image", "source": source}
