"""The OpenAI Responses API as a model.

Owns which events end a stream, and how. Invariant: a failed response is told when its
stream closes; nothing after `response.completed` counts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec
from msgspec import Raw, Struct, field

from ..core.items import Item, decode_item
from ..core.stream import (
    CompletedBody,
    ErrorDetails,
    ErrorEvent,
    OutputItemDone,
    ResponseCompleted,
    ResponseFailed,
    ResponseIncomplete,
    UnknownEvent,
    decode_event,
)
from ..core.usage import WireUsage
from ..core.wire import UNREADABLE, json_bytes
from .contract import Capabilities, ModelError, ModelEvent, ModelRequest, StreamCut
from .endpoint import Endpoint
from .failures import ProviderError, error_in_stream, parse_error_body, provider_error
from .formats.responses import ResponsesFormat
from .soundness import ItemChecker, is_readable
from .transport import Timeouts

__all__ = ["ResponsesModel", "ResponsesReader"]

_COMPACT_FIELDS = frozenset(
    (
        "model",
        "input",
        "instructions",
        "tools",
        "parallel_tool_calls",
        "reasoning",
        "service_tier",
        "prompt_cache_key",
        "text",
    )
)
_COMPACT_PATIENCE = 4
"""A compaction may be silent this many times longer than a stream."""

_LONGEST_REASON = 80
_LASTING = frozenset(("content_filter", "max_output_tokens"))
_DECISIVE = (ResponseCompleted, ResponseFailed, ErrorEvent, ResponseIncomplete, UnknownEvent)
"""Events that may end a stream; nearly all others are deltas."""
_members = msgspec.json.Decoder(dict[str, Raw])


class ResponsesModel(Struct):
    """A model behind ``/responses``; can fold conversations where its provider can."""

    name: str
    capabilities: Capabilities
    endpoint: Endpoint
    shared_transport: bool = False
    """Whether someone else closes the transport."""
    format: ResponsesFormat = field(default_factory=ResponsesFormat)

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        """Send `request` and hand out what comes back."""
        return self.endpoint.stream("/responses", request, ResponsesReader(), _names(request))

    async def compact(self, request: ModelRequest) -> list[Item]:
        """The items that stand for the conversation in `request`."""
        members = _members.decode(request.body)
        kept = {name: raw for name, raw in members.items() if name in _COMPACT_FIELDS}
        idle = self.endpoint.timeouts.idle
        patience = Timeouts(
            connect=self.endpoint.timeouts.connect,
            idle=None if idle is None else idle * _COMPACT_PATIENCE,
        )
        answer = await self.endpoint.fetch(
            "/responses/compact",
            json_bytes(kept),
            {**_names(request), **request.headers},
            timeouts=patience,
        )
        return _compacted(answer)

    async def close(self) -> None:
        """Let go of connections."""
        if not self.shared_transport:
            await self.endpoint.transport.close()


class ResponsesReader:
    """Reads one Responses stream."""

    def __init__(self) -> None:
        self.events: list[ModelEvent] = []
        self.complete = False
        self.failure: ModelError | None = None
        self._remembered: ModelError | None = None
        self._soundness = ItemChecker()

    def read(self, payload: bytes) -> None:
        """One event of the stream; what is no JSON object is passed over."""
        event = decode_event(payload)
        if event is None:
            return
        if isinstance(event, OutputItemDone):
            self._take(event)
            return
        self.events.append(event)
        if not isinstance(event, _DECISIVE):
            return
        match event:
            case ResponseCompleted():
                self.complete = True
            case ResponseFailed():
                self._remembered = error_in_stream(_complaint(event.response.error))
            case ErrorEvent():
                details = event.error or ErrorDetails(event.code, event.message)
                self._remembered = error_in_stream(_complaint(details))
            case ResponseIncomplete():
                reason = event.reason[:_LONGEST_REASON]
                self.failure = StreamCut(
                    f"Incomplete response returned, reason: {reason}",
                    retryable=reason not in _LASTING,
                    code=reason,
                )
            case UnknownEvent(type="response.completed"):
                self.failure = StreamCut(
                    "the provider's last event cannot be read; try again", retryable=True
                )

    def read_document(self, body: bytes) -> None:
        """A response that came as one document."""
        try:
            response = msgspec.json.decode(body, type=_Whole)
        except UNREADABLE:
            self.failure = error_in_stream(parse_error_body(body))
            return
        for item in response.output:
            self._take(OutputItemDone(item))
            if self.failure is not None:
                return
        self.events.append(ResponseCompleted(CompletedBody(id=response.id, usage=response.usage)))
        self.complete = True

    def end(self, cut: ModelError) -> None:
        """The stream has closed without a `response.completed`."""
        self.failure = self._remembered or cut

    def _take(self, event: OutputItemDone) -> None:
        self.failure = self._soundness.error(event.body)
        if self.failure is None:
            self.events.append(event)


class _Whole(Struct):
    id: str
    output: list[Raw]
    usage: WireUsage | None = None


class _Compacted(Struct):
    output: list[Raw]


def _compacted(answer: bytes) -> list[Item]:
    try:
        output = msgspec.json.decode(answer, type=_Compacted).output
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


def _complaint(details: ErrorDetails | None) -> ProviderError:
    if details is None:
        return ProviderError()
    return provider_error(details.message or "", details.code or details.type or "")


def _names(request: ModelRequest) -> dict[str, str]:
    """Names that let a provider tell conversations apart."""
    thread = request.thread
    return {"session-id": thread, "thread-id": thread} if thread else {}
