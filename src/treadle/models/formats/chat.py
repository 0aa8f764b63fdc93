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
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec
from msgspec import UNSET, Raw, Struct

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
    encode_action,
    text_of,
)
from ...core.wire import json_bytes
from ..contract import HeadPart
from .cache_marks import Element, ephemeral, mark_elements
from .chat_extras import (
    EXTRA_CONTENT,
    Detail,
    SealedDetails,
    extra_content,
    sealed_details,
    verifiable_details,
)
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
        return ChatItems(developer, _Reader(head.provider, head.model), not head.instructions)

    def with_cache_marks(self, body: bytes, ends: tuple[int, ...], head: Head) -> bytes:
        """Return `body` with cache marks for a Claude behind OpenRouter; only it knows some."""
        if head.provider != "openrouter" or not head.model.startswith("anthropic/"):
            return body
        return mark_elements(body, "messages", ends, partial(_mark, head.cache_ttl))


def _mark(lifetime: str | None, message: Element) -> Element:
    """Return a message with a mark: in its last part, or where it has none of its own, beside."""
    control = Raw(json_bytes(ephemeral(lifetime)))
    if msgspec.json.decode(message["role"]) in ("assistant", "tool"):
        return {**message, "cache_control": control}
    content = msgspec.json.decode(message["content"])
    text: dict[str, object] = {"type": "text", "text": content}
    parts = [text] if isinstance(content, str) else content
    parts[-1]["cache_control"] = control
    return {**message, "content": Raw(json_bytes(parts))}


def _params(head: Head, cache_key: str, tools: tuple[FlatTool, ...]) -> dict[str, object]:
    fields: dict[str, object] = {
        "model": head.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": head.effort,
        "service_tier": head.service_tier,
        "temperature": head.temperature,
        _limit_name(head): head.max_output_tokens,
    }
    if head.provider == "openai":
        # Smaller servers refuse fields that they do not know.
        fields |= {
            "store": False,
            "verbosity": head.verbosity,
            "prompt_cache_key": cache_key or None,
            "prompt_cache_retention": head.cache_retention,
            "prompt_cache_options": {"ttl": head.cache_ttl} if head.cache_ttl else None,
        }
    if head.output_schema is not UNSET:
        schema = {"name": head.schema_name, "strict": True, "schema": Raw(head.output_schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if tools:
        fields["tool_choice"] = _tool_choice(head.tool_choice)
        fields["parallel_tool_calls"] = head.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _limit_name(head: Head) -> str:
    """Return the field for the longest answer; OpenAI renamed it, others did not."""
    return "max_completion_tokens" if head.provider in ("openai", "azure") else "max_tokens"


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


_CALLS_END = {_Open.NOTHING: b"", _Open.TEXT: b"", _Open.CALLS: b"]"}
_MESSAGE_END = {_Open.NOTHING: b"", _Open.TEXT: b"}", _Open.CALLS: b"}"}


class _Reader(Struct, frozen=True):
    """Who reads the messages."""

    provider: str
    model: str

    @property
    def takes_plain_reasoning(self) -> bool:
        """Whether it takes reasoning back as plain text; OpenRouter wants signed details."""
        return self.provider != "openrouter"


@dataclass(slots=True)
class ChatItems:
    """Writes the messages of one body; one assistant message for the text and calls of a step."""

    developer: str
    """The role of messages from the runtime."""
    reader: _Reader
    first: bool = True
    _open: _Open = _Open.NOTHING
    _order: StepOrder = field(default_factory=lambda: StepOrder(text_after_calls=False))
    _media: list[dict[str, object]] = field(default_factory=list)
    """The media of outputs: they follow the outputs in a user message."""
    _thoughts: list[str] = field(default_factory=list)
    _waiting: list[Detail] = field(default_factory=list)
    """Details of reasoning that wait for the text or call it led to."""
    _details: list[Detail] = field(default_factory=list)
    """Details of the open message: they end it."""

    def write(self, item: bytes) -> bytes:
        """Return the bytes that an encoded item adds."""
        decoded = decode_item(item)
        sealed = sealed_details(decoded)
        if sealed is not None and sealed.late and self._open is not _Open.NOTHING:
            self._details += self._details_to_return(sealed)
            return b""
        return b"".join(map(self._write, self._order.add(decoded)))

    def closing(self) -> bytes:
        """Return what would end the body now."""
        media = json_bytes({"role": "user", "content": self._media}) if self._media else b""
        return self._ending() + (b"," if media else b"") + media + b"]}"

    def copy(self) -> ChatItems:
        """Return an independent writer that continues from here."""
        return replace(
            self,
            _order=self._order.copy(),
            _media=list(self._media),
            _thoughts=list(self._thoughts),
            _waiting=list(self._waiting),
            _details=list(self._details),
        )

    def _write(self, item: Item) -> bytes:
        match item:
            case FunctionCallOutput() | CustomToolCallOutput() | ToolSearchOutput() if (
                call := answered_call_id(item)
            ) is not None:
                return self._write_output(call, item)
            case FunctionCallOutput():
                return self._write_message("user", _standalone_output(item))
            case Message(role="assistant"):
                return self._write_text(_joined_text(item.content), extra_content(item))
            case Message():
                role = self.developer if item.role == "developer" else item.role
                return self._write_message(role, _content(item.content))
            case Reasoning():
                self._wait(item)
                return b""
            case FunctionCall() | CustomToolCall() | LocalShellCall() | ToolSearchCall():
                return self._write_call(item)
            case _:
                return b""

    def _wait(self, item: Reasoning) -> None:
        """Keep reasoning until something follows it."""
        if (sealed := sealed_details(item)) is not None:
            self._waiting += self._details_to_return(sealed)
        elif self.reader.takes_plain_reasoning and (text := _joined_text(item.content or ())):
            self._thoughts.append(text)

    def _details_to_return(self, sealed: SealedDetails) -> list[Detail]:
        may = sealed.may_return_to(self.reader.model)
        return sealed.reasoning_details if may else []

    def _forget_waiting(self) -> None:
        """Leave out reasoning that led to nothing."""
        self._thoughts.clear()
        self._waiting.clear()

    def _write_text(self, text: str, extra: Raw | None) -> bytes:
        if not text:
            return b""
        lead = self._begin_assistant()
        self._open = _Open.TEXT
        return lead + b',"content":' + json_bytes(text) + _extra_member(extra)

    def _begin_assistant(self) -> bytes:
        """Return the start of an assistant message, up to its reasoning."""
        lead = self._begin()
        thoughts, self._thoughts = self._thoughts, []
        self._details, self._waiting = self._waiting, []
        opening: dict[str, str] = {"role": "assistant"}
        if thoughts:
            opening["reasoning_content"] = "\n\n".join(thoughts)
        return lead + json_bytes(opening)[:-1]

    def _write_call(
        self, item: FunctionCall | CustomToolCall | LocalShellCall | ToolSearchCall
    ) -> bytes:
        call = json_bytes(_call(item))
        if self._open is _Open.CALLS:
            return b"," + call
        joins = self._open is _Open.TEXT and not (self._thoughts or self._waiting)
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
        self._forget_waiting()
        lead = self._end() + self._comma()
        self._media += media
        return lead + json_bytes(message)

    def _write_message(self, role: str, content: object) -> bytes:
        if not content:
            return b""
        self._forget_waiting()
        return self._begin() + json_bytes({"role": role, "content": content})

    def _begin(self) -> bytes:
        return self._end() + self._write_media() + self._comma()

    def _end(self) -> bytes:
        end = self._ending()
        self._open, self._details = _Open.NOTHING, []
        return end

    def _ending(self) -> bytes:
        """Return what would end the open message."""
        details = verifiable_details(self._details) if self._open else []
        told = b',"reasoning_details":' + json_bytes(details) if details else b""
        return _CALLS_END[self._open] + told + _MESSAGE_END[self._open]

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
            name, arguments = "local_shell", encode_action(item.action).decode()
        case ToolSearchCall():
            name, arguments = "tool_search", bytes(item.arguments).decode()
    function = {"name": name, "arguments": arguments or "{}"}
    call = {"id": _call_id(call_id_of(item) or ""), "type": "function", "function": function}
    extra = extra_content(item)
    return call if extra is None else {**call, EXTRA_CONTENT: extra}


def _extra_member(extra: Raw | None) -> bytes:
    return b"" if extra is None else b',"%s":%s' % (EXTRA_CONTENT.encode(), bytes(extra))


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
