"""Chat Completions streams as the events of a Responses stream.

Owns the assembly of calls by index and what a finish reason means. Invariant: servers
that send no usage, no ids, no ``[DONE]`` or no stream at all still give whole items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..core.stream import (
    CompletedBody,
    IncompleteDetails,
    ResponseBody,
    ResponseCompleted,
    ResponseCreated,
    ResponseIncomplete,
    ServerModel,
    UnknownEvent,
)
from ..core.usage import InputDetails, OutputDetails, WireUsage
from ..core.wire import UNREADABLE
from .assembly import CallInProgress, ItemBuilder
from .contract import ModelError, ModelEvent, StreamCut
from .failures import error_in_stream, parse_error_body
from .formats.tools import FlatTool

__all__ = ["ChatReader"]

_CUT_SHORT = {"length": "max_output_tokens", "content_filter": "content_filter"}


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _CallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(Struct):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def wire(self) -> WireUsage:
        asked, made = self.prompt_tokens or 0, self.completion_tokens or 0
        given = self.prompt_tokens_details or _PromptDetails()
        cached = (
            self.prompt_cache_hit_tokens if given.cached_tokens is None else given.cached_tokens
        )
        thought = self.completion_tokens_details
        return WireUsage(
            input_tokens=asked,
            input_tokens_details=InputDetails(cached, given.cache_write_tokens),
            output_tokens=made,
            output_tokens_details=OutputDetails(thought.reasoning_tokens) if thought else None,
            total_tokens=self.total_tokens or asked + made,
        )


class _Chunk(Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None

    @property
    def fails(self) -> bool:
        """Whether it tells of a failure instead of a part of the answer."""
        return self.error is not None or self.object == "error"


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatReader:
    """Reads one Chat Completions answer; `digest` stands in for an id the server omits."""

    def __init__(self, tools: Mapping[str, FlatTool], digest: str) -> None:
        self.complete = False
        self.failure: ModelError | None = None
        self._assembly = ItemBuilder(tools)
        self._id, self._fallback = "", f"chatcmpl-{digest}"
        self._calls: dict[int, CallInProgress] = {}
        self._finished = ""
        self._usage: WireUsage | None = None

    @property
    def events(self) -> list[ModelEvent]:
        """What has been read and not been taken."""
        return self._assembly.events

    @events.setter
    def events(self, events: list[ModelEvent]) -> None:
        self._assembly.events = events

    def read(self, payload: bytes) -> None:
        """One chunk of the stream."""
        if payload.strip() == b"[DONE]":
            self._finish(self._finished or "stop")
            return
        try:
            chunk = _decode(payload)
        except msgspec.ValidationError:
            self.events.append(UnknownEvent("", Raw(payload)))
            return
        except UNREADABLE:
            return
        if chunk.fails:
            self._fail(payload)
        else:
            self._take(chunk)

    def read_document(self, body: bytes) -> None:
        """An answer that came as one document."""
        try:
            chunk = _decode(body)
        except UNREADABLE:
            chunk = _Chunk()
        if chunk.fails or not chunk.choices:
            self._fail(body)
            return
        self._take(chunk)
        self._finish(self._finished or "stop")

    def end(self, cut: ModelError) -> None:
        """The stream has closed; that is fine behind a finish reason."""
        if self._finished:
            self._finish(self._finished)
        else:
            self.failure = cut

    def _fail(self, body: bytes) -> None:
        self.failure = error_in_stream(parse_error_body(body))

    def _take(self, chunk: _Chunk) -> None:
        if not self._id and (chunk.id or chunk.choices):
            self._id = chunk.id or self._fallback
            self.events.append(ResponseCreated(ResponseBody(self._id)))
            if chunk.model:
                self.events.append(ServerModel(chunk.model))
        if chunk.usage is not None:
            self._usage = chunk.usage.wire()
        for choice in chunk.choices or ():
            if choice.index == 0:
                self._hear(choice.delta or choice.message or _Delta())
                self._finished = choice.finish_reason or self._finished

    def _hear(self, delta: _Delta) -> None:
        if text := _text(delta.reasoning_content) or _text(delta.reasoning):
            self._assembly.add_thinking(text)
        if text := _text(delta.content) or delta.refusal or "":
            self._assembly.add_text(text)
        for call in delta.tool_calls or ():
            self._hear_call(call)
        self.failure = self._assembly.error

    def _hear_call(self, delta: _CallDelta) -> None:
        function = delta.function or _Function()
        index = max(self._calls, default=0) if delta.index is None else delta.index
        call = self._calls.get(index)
        if call is None or _is_another(delta, call):
            if not function.name:
                return
            index = index if call is None else max(self._calls) + 1
            call = self._begin(index, function.name, delta.id)
        if not call.done and (arguments := _arguments(function.arguments)):
            self._assembly.add_arguments(call, arguments)

    def _begin(self, index: int, name: str, call_id: str | None) -> CallInProgress:
        # Calls that cannot grow any more need not wait for the others.
        self._hand_out(call for call in self._open if call.looks_whole())
        taken = {call.call_id for call in self._calls.values()}
        if not call_id or call_id in taken:
            named = hashlib.blake2b(f"{self._id}:{index}".encode(), digest_size=12)
            call_id = f"call_{named.hexdigest()}"
        call = self._calls[index] = self._assembly.begin_call(name, call_id)
        return call

    @property
    def _open(self) -> list[CallInProgress]:
        return [call for call in self._calls.values() if not call.done]

    def _hand_out(self, calls: Iterable[CallInProgress]) -> None:
        for call in calls:
            self._assembly.finish_call(call)

    def _finish(self, reason: str) -> None:
        self._assembly.finish_text()
        self._hand_out(call for call in self._open if call.is_whole)
        if (cut := _CUT_SHORT.get(reason)) is not None:
            self._cut_short(cut)
            return
        self._hand_out(self._open)
        if self._assembly.error is not None:
            self.failure = self._assembly.error
            return
        body = CompletedBody(id=self._id or self._fallback, usage=self._usage)
        self.events.append(ResponseCompleted(body))
        self.complete = True

    def _cut_short(self, reason: str) -> None:
        details = IncompleteDetails(reason)
        body = ResponseBody(self._id, usage=self._usage, incomplete_details=details)
        self.events.append(ResponseIncomplete(body))
        self.failure = StreamCut(f"Incomplete response returned, reason: {reason}", code=reason)


def _is_another(delta: _CallDelta, call: CallInProgress) -> bool:
    """Whether a server that numbers all calls alike has begun another one."""
    named = bool(delta.function and delta.function.name)
    return named and bool(delta.id) and delta.id != call.call_id and call.looks_whole()


def _text(value: object) -> str:
    """Text, also where a server wraps it into parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _arguments(value: object) -> str:
    """Arguments as the string they should be."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
