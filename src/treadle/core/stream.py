"""Stream events: what a Responses stream reports while a model answers.

Owns each event as a frozen value with its wire name, and the signals that come
as headers before the body. Invariant: no data line can make a stream fail here;
what is no JSON object is None, what we cannot read is an `UnknownEvent`.
"""

# No postponed annotations: decoders read them, and reading them from text takes time.

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct, field

from .items import Item, decode_item
from .typed import json_decoder
from .usage import Credits, RateLimitSnapshot, RateLimitWindow, TokenUsage, WireUsage
from .wire import Json

__all__ = [
    "ErrorDetails",
    "ErrorEvent",
    "HeaderSignal",
    "ModelsEtag",
    "OutputItemAdded",
    "OutputItemDone",
    "OutputTextDelta",
    "RateLimits",
    "RateLimitsEvent",
    "ReasoningSummaryDelta",
    "ReasoningSummaryDone",
    "ReasoningSummaryPartAdded",
    "ReasoningTextDelta",
    "ResponseBody",
    "ResponseCompleted",
    "ResponseCreated",
    "ResponseFailed",
    "ResponseIncomplete",
    "ResponseMetadata",
    "ServerModel",
    "StreamEvent",
    "ToolInputDelta",
    "UnknownEvent",
    "decode_event",
    "header_signals",
    "retry_delay",
]

_DELAY = r"(?i)try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)"


class _Event(Struct, frozen=True, omit_defaults=True):
    """Base of events; unknown fields are ignored."""


class ErrorDetails(_Event, frozen=True):
    """Why a response failed."""

    code: str | None = None
    message: str | None = None
    type: str | None = None
    param: str | None = None


class IncompleteDetails(_Event, frozen=True):
    """Why a response ended early."""

    reason: str | None = None


class ResponseBody(_Event, frozen=True):
    """The response that an event is about."""

    id: str = ""
    usage: WireUsage | None = None
    end_turn: bool | None = None
    error: ErrorDetails | None = None
    incomplete_details: IncompleteDetails | None = None


class CompletedBody(ResponseBody, frozen=True, kw_only=True):
    """A response that completed; it always has an id."""

    id: str


class ResponseCreated(_Event, frozen=True, tag="response.created"):
    """The provider has accepted the request."""

    response: ResponseBody


class OutputItemAdded(_Event, frozen=True, tag="response.output_item.added"):
    """The model has begun an item."""

    body: Json = field(name="item")
    output_index: int | None = None

    @property
    def item(self) -> Item:
        """The item as far as it is known."""
        return decode_item(self.body)


class OutputItemDone(_Event, frozen=True, tag="response.output_item.done"):
    """The model has finished an item; `body` holds its exact bytes."""

    body: Json = field(name="item")
    output_index: int | None = None

    @property
    def item(self) -> Item:
        """The finished item."""
        return decode_item(self.body)


class OutputTextDelta(_Event, frozen=True, tag="response.output_text.delta"):
    """More of an answer's text."""

    delta: str
    item_id: str | None = None


class ToolInputDelta(_Event, frozen=True, tag="response.custom_tool_call_input.delta"):
    """More of a freeform call's input."""

    delta: str
    item_id: str | None = None
    call_id: str | None = None

    @property
    def target(self) -> str | None:
        """The id of the item it belongs to, else of its call."""
        return self.item_id or self.call_id


class ReasoningSummaryDelta(_Event, frozen=True, tag="response.reasoning_summary_text.delta"):
    """More of one part of a reasoning summary."""

    summary_index: int
    delta: str
    item_id: str | None = None


class ReasoningSummaryDone(_Event, frozen=True, tag="response.reasoning_summary_text.done"):
    """One part of a reasoning summary, whole."""

    summary_index: int
    text: str
    item_id: str | None = None


class ReasoningSummaryPartAdded(_Event, frozen=True, tag="response.reasoning_summary_part.added"):
    """A reasoning summary has got another part."""

    summary_index: int
    item_id: str | None = None


class ReasoningTextDelta(_Event, frozen=True, tag="response.reasoning_text.delta"):
    """More of raw reasoning."""

    content_index: int
    delta: str
    item_id: str | None = None


class ResponseCompleted(_Event, frozen=True, tag="response.completed"):
    """The response is whole; nothing after it counts."""

    response: CompletedBody

    @property
    def usage(self) -> TokenUsage | None:
        """The tokens it took, if the provider reports them."""
        wire = self.response.usage
        return None if wire is None else TokenUsage.from_wire(wire)


class ResponseFailed(_Event, frozen=True, tag="response.failed"):
    """The provider could not complete the response."""

    response: ResponseBody = ResponseBody()

    @property
    def code(self) -> str:
        """The provider's code, or ``""``."""
        return (self.response.error and self.response.error.code) or ""

    @property
    def message(self) -> str:
        """The provider's message, or ``""``."""
        return (self.response.error and self.response.error.message) or ""

    @property
    def retry_after(self) -> float | None:
        """Seconds that the provider asks to wait; only for a rate limit."""
        return retry_delay(self.message) if self.code == "rate_limit_exceeded" else None


class ResponseIncomplete(_Event, frozen=True, tag="response.incomplete"):
    """The response was cut short."""

    response: ResponseBody = ResponseBody()

    @property
    def usage(self) -> TokenUsage | None:
        """The tokens it took until then, if the provider reports them."""
        wire = self.response.usage
        return None if wire is None else TokenUsage.from_wire(wire)

    @property
    def reason(self) -> str:
        """Why, or ``unknown``."""
        details = self.response.incomplete_details
        return (details and details.reason) or "unknown"


class ErrorEvent(_Event, frozen=True, tag="error"):
    """A failure of the connection itself rather than of a response."""

    status: int | None = None
    code: str | None = None
    message: str | None = None
    error: ErrorDetails | None = None


class _EventWindow(Struct, frozen=True):
    used_percent: float
    window_minutes: int | None = None
    reset_at: int | None = None

    def window(self) -> RateLimitWindow:
        return RateLimitWindow(self.used_percent, self.window_minutes, self.reset_at)


class _EventWindows(Struct, frozen=True):
    primary: _EventWindow | None = None
    secondary: _EventWindow | None = None


class RateLimitsEvent(_Event, frozen=True, tag="codex.rate_limits"):
    """Rate limits that come inside a stream."""

    plan_type: str | None = None
    rate_limits: _EventWindows | None = None
    credits: Credits | None = None
    metered_limit_name: str | None = None
    limit_name: str | None = None

    @property
    def snapshot(self) -> RateLimitSnapshot:
        """The limits in the shape that headers give."""
        windows = self.rate_limits or _EventWindows()
        return RateLimitSnapshot(
            limit_id=(self.metered_limit_name or self.limit_name or "codex").replace("-", "_"),
            primary=windows.primary.window() if windows.primary else None,
            secondary=windows.secondary.window() if windows.secondary else None,
            credits=self.credits,
            plan_type=self.plan_type,
        )


class ResponseMetadata(Struct, frozen=True):
    """The side channel of a stream (turn state, verification, moderation), verbatim."""

    payload: Json


class UnknownEvent(Struct, frozen=True):
    """An event of an unknown type, or of a known type in a shape we cannot read.

    A ``response.completed`` of this kind means that the stream is broken; any other
    can be ignored.
    """

    type: str
    payload: Json


_Known: TypeAlias = (
    ResponseCreated
    | OutputItemAdded
    | OutputItemDone
    | OutputTextDelta
    | ToolInputDelta
    | ReasoningSummaryDelta
    | ReasoningSummaryDone
    | ReasoningSummaryPartAdded
    | ReasoningTextDelta
    | ResponseCompleted
    | ResponseFailed
    | ResponseIncomplete
    | ErrorEvent
    | RateLimitsEvent
)

StreamEvent: TypeAlias = _Known | ResponseMetadata | UnknownEvent
"""Anything a data line can hold."""


class ServerModel(Struct, frozen=True):
    """The model that really answers the request."""

    model: str


class RateLimits(Struct, frozen=True):
    """The state of one rate limit."""

    snapshot: RateLimitSnapshot


class ModelsEtag(Struct, frozen=True):
    """The version of the provider's model list."""

    etag: str


HeaderSignal: TypeAlias = ServerModel | RateLimits | ModelsEtag
"""Anything that response headers report before the stream begins."""


class _Tagged(Struct):
    type: str


@cache
def _decoder() -> msgspec.json.Decoder[_Known]:
    # Made at first use, while the answer is on its way.
    return json_decoder(_Known)


_decode_type = msgspec.json.Decoder(_Tagged).decode


def decode_event(data: bytes) -> StreamEvent | None:
    """Decode the event in a data line; None if the line holds no typed JSON object."""
    try:
        return _decoder().decode(data)
    except msgspec.ValidationError:
        return _decode_unknown(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def header_signals(headers: Mapping[str, str]) -> tuple[HeaderSignal, ...]:
    """Return the signals in response headers, in the order in which they are reported."""
    lower = {name.lower(): value for name, value in headers.items()}
    signals: list[HeaderSignal] = []
    if model := lower.get("openai-model"):
        signals.append(ServerModel(model))
    signals.extend(map(RateLimits, RateLimitSnapshot.from_headers(lower)))
    if etag := lower.get("x-models-etag"):
        signals.append(ModelsEtag(etag))
    return tuple(signals)


def retry_delay(message: str) -> float | None:
    """Return the seconds in a message such as "try again in 1.5s" or "… 20ms"."""
    found = re.search(_DELAY, message)
    if found is None:
        return None
    scale = 1_000 if found[2].lower() == "ms" else 1
    return float(found[1]) / scale


def _decode_unknown(data: bytes) -> StreamEvent | None:
    try:
        kind = _decode_type(data).type
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if kind == "response.metadata":
        return ResponseMetadata(Raw(data))
    return UnknownEvent(kind, Raw(data))
