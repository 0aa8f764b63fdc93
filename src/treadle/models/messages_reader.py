"""Anthropic Messages streams as the events of a Responses stream.

Owns the assembly of content blocks. Invariant: a thinking block becomes an item only
with all of its fields, so that it can be replayed as it came; a block of a kind we do
not know becomes an item of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from ..core.items import Reasoning, Unknown
from ..core.stream import (
    CompletedBody,
    IncompleteDetails,
    ReasoningTextDelta,
    ResponseBody,
    ResponseCompleted,
    ResponseCreated,
    ResponseIncomplete,
    ServerModel,
    UnknownEvent,
)
from ..core.usage import InputDetails, OutputDetails, WireUsage
from ..core.wire import UNREADABLE, json_bytes
from .assembly import CallInProgress, ItemBuilder
from .contract import ContextOverflow, ModelError, ModelEvent, StreamCut
from .failures import error_in_stream, parse_error_body
from .formats.thinking import THINKING, reasoning_item
from .formats.tools import FlatTool

__all__ = ["MessagesReader"]

_CUT_SHORT = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


class _OutputDetails(Struct):
    thinking_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None

    def updated(self, later: _Usage) -> _Usage:
        """The figures so far; each is a running total."""
        return _Usage(
            _later(self.input_tokens, later.input_tokens),
            _later(self.output_tokens, later.output_tokens),
            _later(self.cache_read_input_tokens, later.cache_read_input_tokens),
            _later(self.cache_creation_input_tokens, later.cache_creation_input_tokens),
            later.output_tokens_details or self.output_tokens_details,
        )

    def wire(self) -> WireUsage:
        read, written = self.cache_read_input_tokens, self.cache_creation_input_tokens
        # The API counts what came from the cache apart; we count it in.
        asked = (self.input_tokens or 0) + (read or 0) + (written or 0)
        made, details = self.output_tokens or 0, self.output_tokens_details
        return WireUsage(
            input_tokens=asked,
            input_tokens_details=InputDetails(read, written),
            output_tokens=made,
            output_tokens_details=OutputDetails(details.thinking_tokens) if details else None,
            total_tokens=asked + made,
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
        """More of a field that comes piece by piece."""
        self.grown.setdefault(name, [_text(self.fields.get(name))]).append(delta)

    def settle(self) -> None:
        """Nothing more comes."""
        self.fields |= {name: "".join(pieces) for name, pieces in self.grown.items()}


_decode = msgspec.json.Decoder(_Event).decode


class MessagesReader:
    """Reads one Messages answer."""

    def __init__(self, tools: Mapping[str, FlatTool]) -> None:
        self.complete = False
        self.failure: ModelError | None = None
        self._assembly = ItemBuilder(tools)
        self._id = ""
        self._blocks: dict[int, _Block] = {}
        self._usage = _Usage()
        self._stopped = ""
        self._doubtful: CallInProgress | None = None
        """A call whose arguments may be cut off; known once something follows it."""

    @property
    def events(self) -> list[ModelEvent]:
        """What has been read and not been taken."""
        return self._assembly.events

    @events.setter
    def events(self, events: list[ModelEvent]) -> None:
        self._assembly.events = events

    def read(self, payload: bytes) -> None:
        """One event of the stream."""
        try:
            event = _decode(payload)
        except msgspec.ValidationError:
            self.events.append(UnknownEvent(_claimed_type(payload), Raw(payload)))
            return
        except UNREADABLE:
            return
        self._take(event, payload)
        self.failure = self.failure or self._assembly.error

    def read_document(self, body: bytes) -> None:
        """An answer that came as one document."""
        try:
            message = msgspec.json.decode(body, type=_Message)
        except UNREADABLE:
            message = _Message()
        if not message.id:
            self.failure = error_in_stream(parse_error_body(body))
            return
        self._start(message)
        for index, block in enumerate(message.content):
            self._open(index, block)
            self._close(self._blocks.pop(index))
        self._stopped = message.stop_reason or ""
        self._finish()

    def end(self, cut: ModelError) -> None:
        """The stream has closed without a `message_stop`."""
        self.failure = cut

    def _take(self, event: _Event, payload: bytes) -> None:
        match event.type:
            case "message_start":
                self._start(event.message or _Message())
            case "content_block_start":
                self._open(event.index, event.content_block or {})
            case "content_block_delta" if event.delta and event.index in self._blocks:
                self._grow(self._blocks[event.index], event.delta)
            case "content_block_stop" if event.index in self._blocks:
                self._close(self._blocks.pop(event.index))
            case "message_delta":
                self._usage = self._usage.updated(event.usage or _Usage())
                self._stopped = (event.delta and event.delta.stop_reason) or self._stopped
            case "message_stop":
                self._finish()
            case "error":
                self.failure = error_in_stream(parse_error_body(payload))
            case "ping":
                pass
            case _:
                self.events.append(UnknownEvent(event.type, Raw(payload)))

    def _start(self, message: _Message) -> None:
        self._id = message.id
        self._usage = self._usage.updated(message.usage or _Usage())
        self.events.append(ResponseCreated(ResponseBody(message.id)))
        if message.model:
            self.events.append(ServerModel(message.model))

    def _open(self, index: int, fields: dict[str, Any]) -> None:
        self._trust()
        block = self._blocks[index] = _Block(fields)
        match fields.get("type"):
            case "tool_use":
                name, call_id = _text(fields.get("name")), _text(fields.get("id"))
                block.call = self._assembly.begin_call(name, call_id)
                if given := fields.get("input"):
                    self._argue(block, json_bytes(given).decode())
            case "thinking" | "redacted_thinking":
                self._assembly.begin(Reasoning())
            case "text" if said := _text(fields.get("text")):
                self._assembly.add_text(said)

    def _grow(self, block: _Block, delta: _Change) -> None:
        match delta.type:
            case "text_delta":
                self._assembly.add_text(delta.text)
            case "thinking_delta":
                block.grow("thinking", delta.thinking)
                self.events.append(ReasoningTextDelta(0, delta.thinking))
            case "signature_delta":
                block.grow("signature", delta.signature)
            case "input_json_delta":
                self._argue(block, delta.partial_json)

    def _argue(self, block: _Block, fragment: str) -> None:
        block.arguments.append(fragment)
        if block.call is not None:
            self._assembly.add_arguments(block.call, fragment)

    def _close(self, block: _Block) -> None:
        block.settle()
        kind = _text(block.fields.get("type"))
        if block.call is not None:
            self._doubtful = block.call
            if block.call.is_whole or not block.call.arguments:
                self._trust()
        elif kind == "text":
            self._assembly.finish_text()
        elif kind in THINKING:
            self._assembly.finish(reasoning_item(block.fields))
        else:
            self._assembly.finish(Unknown(Raw(json_bytes(_unknown(block)))))

    def _trust(self) -> None:
        """What follows a call shows that it was not cut off."""
        if self._doubtful is not None:
            self._assembly.finish_call(self._doubtful)
        self._doubtful = None

    def _finish(self) -> None:
        self._assembly.finish_text()
        usage = self._usage.wire()
        if self._stopped == "model_context_window_exceeded":
            self.failure = ContextOverflow(
                "the answer filled the model's window; compact the thread", code=self._stopped
            )
        elif (cut := _CUT_SHORT.get(self._stopped)) is not None:
            details = IncompleteDetails(cut)
            body = ResponseBody(self._id, usage=usage, incomplete_details=details)
            self.events.append(ResponseIncomplete(body))
            self.failure = StreamCut(f"Incomplete response returned, reason: {cut}", code=cut)
        else:
            self._trust()
            if self._assembly.error is not None:
                self.failure = self._assembly.error
                return
            goes_on = False if self._stopped == "pause_turn" else None
            self.events.append(
                ResponseCompleted(CompletedBody(id=self._id, usage=usage, end_turn=goes_on))
            )
            self.complete = True


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _later(before: int | None, now: int | None) -> int | None:
    return before if now is None else max(before or 0, now)


def _claimed_type(payload: bytes) -> str:
    return Unknown(Raw(payload)).type


def _unknown(block: _Block) -> dict[str, Any]:
    """A block of unknown kind, with the input it was given piece by piece."""
    if not block.arguments:
        return block.fields
    try:
        given = msgspec.json.decode("".join(block.arguments))
    except UNREADABLE:
        return block.fields
    return {**block.fields, "input": given}
