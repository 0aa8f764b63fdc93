"""The OpenAI Responses API as a model.

Owns which events end a stream, and how. Invariant: the error of a failed response is raised
when its stream closes; nothing after `response.completed` counts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from ..core.found_text import SEARCH_TOOL
from ..core.items import FunctionCall, Item, ToolSearchCall, decode_item, encode_item
from ..core.stream import (
    CompletedBody,
    ErrorDetails,
    ErrorEvent,
    OutputItemDone,
    OutputTextDelta,
    ResponseCompleted,
    ResponseFailed,
    ResponseIncomplete,
    UnknownEvent,
    decode_event,
)
from ..core.typed import decode_json
from ..core.usage import WireUsage
from ..core.wire import UNREADABLE, json_bytes
from .contract import ModelError, ModelEvent, ModelRequest, StreamCut
from .endpoint import HttpModel
from .formats.deferral import search_spec
from .formats.responses import ResponsesFormat
from .item_checks import ItemChecker, is_readable
from .provider_errors import (
    ErrorBody,
    error_in_stream,
    incomplete_answer,
    make_error_body,
    parse_error_body,
)
from .transport import Timeouts

__all__ = ["ResponsesModel", "ResponsesReader"]

_COMPACT_FIELDS = frozenset(
    (
        "model",
        "input",
        "instructions",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "service_tier",
    )
)
_NO_ENDPOINT = frozenset((404, 405, 501))
_COMPACT_IDLE_FACTOR = 4
"""A compaction may be silent this many times longer than a stream."""

_LONGEST_REASON = 80
_LASTING = frozenset(("content_filter", "max_output_tokens"))
_DECISIVE = (ResponseCompleted, ResponseFailed, ErrorEvent, ResponseIncomplete, UnknownEvent)
"""Events that may end a stream."""
_SEARCH = b'"tool_search_call"'
_members = msgspec.json.Decoder(dict[str, Raw])


class ResponsesModel(HttpModel):
    """A model behind ``/responses``; compacts conversations where its provider can."""

    format: ResponsesFormat = field(default_factory=ResponsesFormat)

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        """Send `request` and yield the events of the answer."""
        headers = _thread_headers(request)
        reader = ResponsesReader(searches=search_spec(request.head) is not None)
        return self.endpoint.stream("/responses", request, reader, headers)

    async def compact(self, request: ModelRequest) -> list[Item]:
        """Return the items that replace the conversation in `request`."""
        members = _members.decode(request.body)
        kept = {name: raw for name, raw in members.items() if name in _COMPACT_FIELDS}
        idle = self.endpoint.timeouts.idle
        timeouts = Timeouts(
            connect=self.endpoint.timeouts.connect,
            idle=None if idle is None else idle * _COMPACT_IDLE_FACTOR,
            total=self.endpoint.timeouts.total,
        )
        headers = {**_thread_headers(request), **request.headers}
        try:
            answer = await self.endpoint.fetch(
                "/responses/compact", json_bytes(kept), headers, timeouts=timeouts
            )
        except ModelError as error:
            if error.status in _NO_ENDPOINT:
                # A server without the endpoint gets none later; summaries need no asking first.
                self.capabilities = replace(self.capabilities, remote_compaction="none")
            raise
        return _compaction_items(answer)


class ResponsesReader:
    """Reads one Responses stream."""

    def __init__(self, *, searches: bool = False) -> None:
        self.events: list[ModelEvent] = []
        self.complete = False
        self.failure: ModelError | None = None
        self._searches = searches
        """Whether the model may search for tools, which is a call like others to everybody else."""
        self._announced: ModelError | None = None
        self._checker = ItemChecker()
        self._has_items = False

    def read(self, payload: bytes) -> None:
        """Read one event of the stream; skip what is no JSON object."""
        event = decode_event(payload)
        if isinstance(event, OutputTextDelta):  # nearly all of them
            self.events.append(event)
            return
        if event is None:
            return
        if isinstance(event, OutputItemDone):
            self._take_item(event)
            return
        if isinstance(event, ResponseCompleted) and not self._has_items:
            self._take_output(payload)
        self.events.append(event)
        if isinstance(event, _DECISIVE):
            self._decide(event)

    def _decide(self, event: ModelEvent) -> None:
        """Note what an event means for the whole answer."""
        match event:
            case ResponseCompleted():
                self.complete = True
            case ResponseFailed():
                self._announced = error_in_stream(_error_of(event.response.error))
            case ErrorEvent():
                details = event.error or ErrorDetails(event.code, event.message)
                self._announced = error_in_stream(_error_of(details))
            case ResponseIncomplete():
                reason = event.reason[:_LONGEST_REASON]
                self.failure = incomplete_answer(reason, retryable=reason not in _LASTING)
            case UnknownEvent(type="response.completed"):
                self.failure = StreamCut(
                    "the provider's last event cannot be read; try again", retryable=True
                )

    def read_document(self, body: bytes) -> None:
        """Read a response that came as one document."""
        try:
            response = decode_json(body, _Response)
        except UNREADABLE:
            self.failure = error_in_stream(parse_error_body(body))
            return
        for item in response.output:
            self._take_item(OutputItemDone(item))
            if self.failure is not None:
                return
        self.events.append(ResponseCompleted(CompletedBody(id=response.id, usage=response.usage)))
        self.complete = True

    def end(self, cut: ModelError) -> None:
        """Handle the end of a stream that had no `response.completed`."""
        self.failure = self._announced or cut

    def _take_output(self, payload: bytes) -> None:
        """Take the items of the last event, which some proxies send nowhere else."""
        try:
            output = decode_json(payload, _Completed).response.output
        except UNREADABLE:
            return
        for item in output:
            self._take_item(OutputItemDone(item))

    def _take_item(self, event: OutputItemDone) -> None:
        self._has_items = True
        if self._searches and _SEARCH in bytes(event.body):
            event = replace(event, body=_plain_call(event.body))
        if self.failure is None and self._checker.admits(event.body):
            self.events.append(event)
        self.failure = self.failure or self._checker.failure


def _plain_call(body: Raw) -> Raw:
    """Return a search that is ours to run as a call of a function; other items as they are."""
    item = decode_item(body) if is_readable(body) else None
    if not isinstance(item, ToolSearchCall) or item.execution != "client" or not item.call_id:
        return body
    arguments = bytes(item.arguments).decode()
    call = FunctionCall(id=item.id, name=SEARCH_TOOL, arguments=arguments, call_id=item.call_id)
    return Raw(encode_item(call))


class _Response(Struct):
    id: str
    output: list[Raw]
    usage: WireUsage | None = None


class _Output(Struct):
    output: list[Raw] = []


class _Completed(Struct):
    response: _Output


class _Compaction(Struct):
    output: list[Raw]


def _compaction_items(answer: bytes) -> list[Item]:
    try:
        output = decode_json(answer, _Compaction).output
    except UNREADABLE as error:
        raise _unreadable() from error
    if not all(map(is_readable, output)):
        raise _unreadable()
    return [decode_item(raw) for raw in output]


def _unreadable() -> ModelError:
    return ModelError(
        "the provider's compaction cannot be read; compact with a summary instead",
        code="unreadable",
    )


def _error_of(details: ErrorDetails | None) -> ErrorBody:
    if details is None:
        return ErrorBody()
    return make_error_body(details.message or "", details.code or details.type or "")


def _thread_headers(request: ModelRequest) -> dict[str, str]:
    """Return the headers by which a provider tells conversations apart."""
    thread = request.thread
    return {"session-id": thread, "thread-id": thread} if thread else {}
