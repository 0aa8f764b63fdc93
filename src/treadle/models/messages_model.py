"""The Anthropic Messages API as a model.

Owns how its streams become the events of a Responses stream, block by block. Invariant: a
thinking block becomes an item only with all of its fields, so that it can be sent back as it
came; a block about a tool that the provider ran itself becomes an item of its kind, and a
block of any other kind ends the answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from ..core.items import Reasoning, Unknown
from ..core.stream import ReasoningTextDelta, UnknownEvent
from ..core.typed import decode_json
from ..core.usage import InputDetails, OutputDetails, WireUsage
from ..core.wire import UNREADABLE, json_bytes
from .contract import ContextOverflow, ModelError, ModelEvent, ModelRequest
from .endpoint import HttpModel
from .formats.function_calls import FlatTool, flat_tools
from .formats.messages import THINKING, MessagesFormat, reasoning_item
from .item_checks import RUN_BY_MESSAGES, forged_item
from .item_reader import CallInProgress, ItemReader

__all__ = ["MessagesModel", "MessagesReader"]

_CUT_SHORT = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


class MessagesModel(HttpModel):
    """A model behind ``/messages``."""

    format: MessagesFormat = field(default_factory=MessagesFormat)

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        """Send `request` and yield the events of the answer."""
        tools = {tool.name: tool for tool in flat_tools(request.head.tools)}
        return self.endpoint.stream("/messages", request, MessagesReader(tools), {})


class _OutputDetails(Struct):
    thinking_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None

    def merge(self, later: _Usage) -> _Usage:
        """Return the figures so far; each is a running total."""
        return _Usage(
            _latest(self.input_tokens, later.input_tokens),
            _latest(self.output_tokens, later.output_tokens),
            _latest(self.cache_read_input_tokens, later.cache_read_input_tokens),
            _latest(self.cache_creation_input_tokens, later.cache_creation_input_tokens),
            later.output_tokens_details or self.output_tokens_details,
        )

    def to_wire(self) -> WireUsage:
        read, written = self.cache_read_input_tokens, self.cache_creation_input_tokens
        # The API counts what came from the cache apart; we count it in.
        prompt = (self.input_tokens or 0) + (read or 0) + (written or 0)
        output, details = self.output_tokens or 0, self.output_tokens_details
        return WireUsage(
            input_tokens=prompt,
            input_tokens_details=InputDetails(read, written),
            output_tokens=output,
            output_tokens_details=OutputDetails(details.thinking_tokens) if details else None,
            total_tokens=prompt + output,
        )


class _Message(Struct):
    id: str = ""
    model: str = ""
    content: list[dict[str, Any]] = []
    usage: _Usage | None = None
    stop_reason: str | None = None


class _Change(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(Struct):
    type: str
    index: int = 0
    message: _Message | None = None
    content_block: dict[str, Any] | None = None
    delta: _Change | None = None
    usage: _Usage | None = None


class _Block(Struct):
    fields: dict[str, Any]
    call: CallInProgress | None = None
    arguments: list[str] = field(default_factory=list)
    grown: dict[str, list[str]] = field(default_factory=dict)

    def grow(self, name: str, delta: str) -> None:
        """Append to a field that comes piece by piece."""
        self.grown.setdefault(name, [_text(self.fields.get(name))]).append(delta)

    def finish(self) -> None:
        """Join the pieces of the fields that grew."""
        self.fields |= {name: "".join(pieces) for name, pieces in self.grown.items()}


_decode_event = msgspec.json.Decoder(_Event).decode


class MessagesReader(ItemReader):
    """Reads one Messages answer."""

    run_by_provider = RUN_BY_MESSAGES

    def __init__(self, tools: Mapping[str, FlatTool]) -> None:
        super().__init__(tools)
        self._blocks: dict[int, _Block] = {}
        self._usage = _Usage()
        self._stop_reason = ""
        self._doubtful: CallInProgress | None = None
        """A call whose arguments may be cut off; known once something follows it."""

    def read_document(self, body: bytes) -> None:
        """Read an answer that came as one document."""
        try:
            message = decode_json(body, _Message)
        except UNREADABLE:
            message = _Message()
        if not message.id:
            self._fail(body)
            return
        self._start_message(message)
        for index, block in enumerate(message.content):
            self._open_block(index, block)
            self._close_block(self._blocks.pop(index))
        self._stop_reason = message.stop_reason or ""
        self._finish()

    def end(self, cut: ModelError) -> None:
        """Handle the end of a stream that had no `message_stop`."""
        self.failure = cut

    def _decode(self, payload: bytes) -> _Event:
        return _decode_event(payload)

    def _event_type(self, payload: bytes, /) -> str:
        return Unknown(Raw(payload)).type

    def _take(self, event: _Event, payload: bytes) -> None:
        match event.type:
            case "message_start":
                self._start_message(event.message or _Message())
            case "content_block_start":
                self._open_block(event.index, event.content_block or {})
            case "content_block_delta" if event.delta and event.index in self._blocks:
                self._grow_block(self._blocks[event.index], event.delta)
            case "content_block_stop" if event.index in self._blocks:
                self._close_block(self._blocks.pop(event.index))
            case "message_delta":
                self._usage = self._usage.merge(event.usage or _Usage())
                self._stop_reason = (event.delta and event.delta.stop_reason) or self._stop_reason
            case "message_stop":
                self._finish()
            case "error":
                self._fail(payload)
            case "ping":
                pass
            case _:
                self.events.append(UnknownEvent(event.type, Raw(payload)))

    def _start_message(self, message: _Message) -> None:
        self._usage = self._usage.merge(message.usage or _Usage())
        self._start(message.id, message.model)

    def _open_block(self, index: int, fields: dict[str, Any]) -> None:
        self._accept_doubtful()
        block = self._blocks[index] = _Block(fields)
        match fields.get("type"):
            case "tool_use":
                name, call_id = _text(fields.get("name")), _text(fields.get("id"))
                block.call = self._begin_call(name, call_id)
                if given := fields.get("input"):
                    self._grow_input(block, json_bytes(given).decode())
            case "thinking" | "redacted_thinking":
                self._begin_item(Reasoning())
            case "text" if text := _text(fields.get("text")):
                self._add_text(text)

    def _grow_block(self, block: _Block, delta: _Change) -> None:
        match delta.type:
            case "text_delta":
                self._add_text(delta.text)
            case "thinking_delta":
                block.grow("thinking", delta.thinking)
                self.events.append(ReasoningTextDelta(0, delta.thinking))
            case "signature_delta":
                block.grow("signature", delta.signature)
            case "input_json_delta":
                self._grow_input(block, delta.partial_json)

    def _grow_input(self, block: _Block, fragment: str) -> None:
        block.arguments.append(fragment)
        if block.call is not None:
            self._add_arguments(block.call, fragment)

    def _close_block(self, block: _Block) -> None:
        block.finish()
        kind = _text(block.fields.get("type"))
        if block.call is not None:
            self._doubtful = block.call
            if block.call.is_whole or not block.call.arguments:
                self._accept_doubtful()
        elif kind == "text":
            self._finish_text()
        elif kind in THINKING:
            self._finish_item(reasoning_item(block.fields))
        elif kind in self.run_by_provider:
            self._finish_item(Unknown(Raw(json_bytes(_with_input(block)))))
        else:
            self.failure = self.failure or forged_item(kind)

    def _accept_doubtful(self) -> None:
        """Hand out the doubtful call: what follows it shows that it was not cut off."""
        if self._doubtful is not None:
            self._finish_call(self._doubtful)
        self._doubtful = None

    def _finish(self) -> None:
        self._finish_text()
        usage = self._usage.to_wire()
        if self._stop_reason == "model_context_window_exceeded":
            self.failure = ContextOverflow(
                "the answer filled the model's window; compact the thread", code=self._stop_reason
            )
        elif (cut := _CUT_SHORT.get(self._stop_reason)) is not None:
            self._cut_short(cut, usage)
        else:
            self._accept_doubtful()
            self._complete(usage, end_turn=False if self._stop_reason == "pause_turn" else None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _latest(before: int | None, now: int | None) -> int | None:
    return before if now is None else max(before or 0, now)


def _with_input(block: _Block) -> dict[str, Any]:
    """Return a block with the input that came piece by piece."""
    if not block.arguments:
        return block.fields
    try:
        given = msgspec.json.decode("".join(block.arguments))
    except UNREADABLE:
        return block.fields
    return {**block.fields, "input": given}
