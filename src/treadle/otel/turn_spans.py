"""Turn spans: the events of one thread as spans, its agents' below its own.

Owns which span is open. Invariants: every span that was started is ended, at the latest with its
turn; no text of a conversation is in an attribute unless content was asked for; and what is told
of content was blanked before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from ..core.entries import Reason
from ..core.redact import redact_known
from ..core.usage import TokenUsage
from ..core.wire import UNREADABLE, json_bytes
from ..harness.events import (
    AgentReported,
    CompactionFinished,
    Event,
    ReasoningDelta,
    Retrying,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UsageReported,
)
from ..mcp.names import LONGEST_NAME, PREFIX
from ..prompt.mcp_servers import CALL_TOOL
from . import conventions as names

if TYPE_CHECKING:
    from .instruments import Instruments

__all__ = ["Recorder", "TurnSpans", "input_attributes"]

_LONGEST = 16_000
"""Characters of content that a span has at most."""


class Recorder(Struct, frozen=True):
    """Where spans and figures go, and whether texts go with them."""

    tracer: Tracer
    instruments: Instruments
    content: bool = False


class _Request(Struct):
    """A request that is under way."""

    span: Span
    began: float
    size: int
    shared: int
    first: float | None = None
    text: list[str] = []


class _Call(Struct):
    """A call that runs."""

    span: Span
    tool: str


class _Named(Struct):
    """The arguments of a call that passes on to a tool which a search found."""

    name: str = ""


_named = msgspec.json.Decoder(_Named)
_SERVER_TOOL = re.compile(rf"{PREFIX}[A-Za-z0-9_]{{1,{LONGEST_NAME}}}")


class TurnSpans:
    """The spans of one thread's turns."""

    def __init__(
        self, recorder: Recorder, facts: Mapping[str, str], newest: Context | None = None
    ) -> None:
        self._recorder = recorder
        self._facts = dict(facts)
        """What is known of the thread: its conversation and its agent."""
        self._turn: Span | None = None
        self._context: Context | None = None
        self._began = 0.0
        self._model: dict[str, str] = {}
        self._request: _Request | None = None
        self._calls: dict[str, _Call] = {}
        self._agents: dict[str, TurnSpans] = {}
        self._newest = newest
        """The newest turn, also after its end: agents outlast the turn that started them."""
        self._compacted = False

    @property
    def context(self) -> Context | None:
        """The context of the turn that is under way."""
        return self._context

    @property
    def _above(self) -> Context | None:
        """What requests and calls stand below: one follows an agent from its middle, too."""
        return self._context or self._newest

    def begin(self, model: str, parent: Context | None, attributes: Mapping[str, Any]) -> None:
        """Start the span of a turn; one that is still open ends."""
        self._end_turn("abandoned")
        self._model = _model_attributes(model)
        given = {names.OPERATION: "invoke_agent", **self._facts, **self._model, **attributes}
        self._turn = self._recorder.tracer.start_span(
            f"invoke_agent {self._facts[names.AGENT]}",
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=given,
        )
        self._context = self._newest = set_span_in_context(self._turn, parent)
        self._began = time.monotonic()

    def observe(self, event: Event) -> None:
        """Take an event of the thread."""
        match event:
            case TurnStarted():
                self._describe(event)
            case ToolStarted():
                self._start_call(event)
            case ToolFinished():
                self._end_call(event)
            case CompactionFinished(error=None):
                self._note_compaction(event)
            case AgentReported():
                self._observe_agent(event)
            case TurnCompleted():
                self._complete(event)
            case _:
                self._observe_request(event)

    def _observe_request(self, event: Event) -> None:
        match event:
            case StepStarted():
                self._start_request(event)
            case TextDelta(text=text) | ReasoningDelta(text=text):
                self._hear(text, said=isinstance(event, TextDelta))
            case Retrying() if self._request is not None:
                self._request.span.add_event("retry", {"attempt": event.attempt})
            case UsageReported():
                self._end_request(event)

    def end(self, error: str) -> None:
        """End whatever is open, also of agents."""
        for agent in self._agents.values():
            agent.end(error)
        self._end_turn(error)

    def _end_turn(self, error: str) -> None:
        open_spans = [call.span for call in self._calls.values()]
        open_spans += [self._request.span] if self._request is not None else []
        open_spans += [self._turn] if self._turn is not None else []
        for span in open_spans:
            if error:
                _fail(span, error)
            span.end()
        self._calls.clear()
        self._request = self._turn = self._context = None

    def _note_compaction(self, event: CompactionFinished) -> None:
        self._compacted = True
        if self._turn is not None:
            tokens = {"before": event.tokens_before, "after": event.tokens_after}
            self._turn.add_event("treadle.compaction", tokens)

    def _describe(self, event: TurnStarted) -> None:
        if self._turn is None:
            self.begin(event.model, None, {names.TURN: event.turn})
        assert self._turn is not None, "it was just begun"
        # A fallback may have chosen another model than the one that the turn was admitted for.
        self._model = _model_attributes(event.model)
        self._turn.set_attributes(
            {
                names.TURN: event.turn,
                names.HARNESS: event.harness,
                names.SANDBOX: event.sandbox,
                **({names.PROFILE: event.profile} if event.profile else {}),
            }
        )

    def _start_request(self, event: StepStarted) -> None:
        self._close_request()
        model = self._model.get(names.REQUEST_MODEL, "")
        attributes: dict[str, Any] = {
            names.OPERATION: "chat",
            **self._model,
            names.CONVERSATION: self._facts[names.CONVERSATION],
            names.STEP: event.step,
            names.REQUEST_BYTES: event.size,
            names.SHARED_BYTES: event.shared,
        }
        if event.reason:
            attributes[names.EPOCH_REASON] = event.reason
        if event.reason not in (None, Reason.START):
            self._recorder.instruments.count_break(event.reason, self._model)
        if self._compacted:
            # The conventions know it as true only, never as false.
            attributes[names.COMPACTED] = True
        span = self._recorder.tracer.start_span(
            f"chat {model}", context=self._above, kind=SpanKind.CLIENT, attributes=attributes
        )
        self._request = _Request(span, time.monotonic(), event.size, event.shared, text=[])

    def _hear(self, text: str, *, said: bool) -> None:
        request = self._request
        if request is None:
            return
        if request.first is None:
            request.first = time.monotonic() - request.began
        if said and self._recorder.content:
            request.text.append(text)

    def _end_request(self, event: UsageReported) -> None:
        request = self._request
        if request is None:
            return
        usage, span = event.usage, request.span
        span.set_attributes(_usage_attributes(usage))
        span.set_attribute(names.VIEW_TOKENS, event.occupied)
        if event.window:
            span.set_attribute(names.VIEW_BUDGET, event.window)
        if event.model:
            span.set_attribute(names.RESPONSE_MODEL, event.model.partition(":")[2] or event.model)
        self._rate_cache(request, usage)
        self._recorder.instruments.count(usage, {names.OPERATION: "chat", **self._model})
        self._close_request()

    def _rate_cache(self, request: _Request, usage: TokenUsage) -> None:
        """Set what the provider could have served from its cache beside what it says it did."""
        if not request.size or not request.shared or usage.cached_input_tokens is None:
            return
        expected = round(usage.input_tokens * request.shared / request.size)
        request.span.set_attribute(names.EXPECTED_TOKENS, expected)
        if expected:
            efficiency = min(usage.cached_input_tokens / expected, 1.0)
            request.span.set_attribute(names.EFFICIENCY, efficiency)
            self._recorder.instruments.rate_cache(efficiency, self._model)

    def _close_request(self, error: str = "") -> None:
        request, self._request = self._request, None
        if request is None:
            return
        split = {names.OPERATION: "chat", **self._model}
        if request.first is not None:
            request.span.set_attribute(names.FIRST_CHUNK, request.first)
            self._recorder.instruments.time(names.CHUNK_DURATION, request.first, split)
        if request.text:
            request.span.set_attribute(names.OUTPUT_MESSAGES, _message("".join(request.text)))
        if error:
            _fail(request.span, error)
            split[names.ERROR] = error
        self._recorder.instruments.time(
            names.CHAT_DURATION, time.monotonic() - request.began, split
        )
        request.span.end()

    def _start_call(self, event: ToolStarted) -> None:
        tool = _tool_name(event)
        recall = tool.startswith("recall_")
        attributes: dict[str, Any] = {
            names.OPERATION: "search_memory" if recall else "execute_tool",
            names.TOOL: tool,
            names.TOOL_CALL: event.call_id,
            names.TOOL_TYPE: "extension" if tool.startswith(PREFIX) else "function",
            names.CONVERSATION: self._facts[names.CONVERSATION],
        }
        if tool.startswith(PREFIX):
            attributes[names.MCP_METHOD] = "tools/call"
        if self._recorder.content:
            attributes[names.TOOL_ARGUMENTS] = _content(event.arguments)
        span = self._recorder.tracer.start_span(
            f"{attributes[names.OPERATION]} {tool}",
            context=self._above,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
        )
        self._calls[event.call_id] = _Call(span, tool)

    def _end_call(self, event: ToolFinished) -> None:
        call = self._calls.pop(event.call_id, None)
        if call is None:
            return
        split = {names.OPERATION: "execute_tool", names.TOOL: call.tool}
        if self._recorder.content:
            call.span.set_attribute(names.TOOL_RESULT, _content(event.output))
        if not event.success:
            _fail(call.span, "tool_error")
            split[names.ERROR] = "tool_error"
        self._recorder.instruments.time(names.TOOL_DURATION, event.seconds, split)
        call.span.end()

    def _observe_agent(self, event: AgentReported) -> None:
        spans = self._agents.get(event.thread)
        if spans is None:
            facts = {
                names.AGENT: event.nickname or "agent",
                names.CONVERSATION: event.thread,
            }
            spans = self._agents[event.thread] = TurnSpans(self._recorder, facts, self._newest)
        if isinstance(event.event, TurnStarted):
            spans.begin(event.event.model, self._newest, {names.TURN: event.event.turn})
        spans.observe(event.event)

    def _complete(self, event: TurnCompleted) -> None:
        error = _error_type(event)
        self._close_request(error)
        if self._turn is None:
            return
        self._turn.set_attributes(_usage_attributes(event.usage))
        for currency, amount in event.cost.amounts.items():
            self._turn.set_attribute(f"{names.COST}.{currency.lower()}", amount)
        if event.limit is not None:
            self._turn.set_attribute(names.LIMIT, event.limit.limit)
        if self._recorder.content and event.text:
            self._turn.set_attribute(names.OUTPUT_MESSAGES, _message(event.text))
        split = {names.OPERATION: "invoke_agent", **self._model}
        if error:
            split[names.ERROR] = error
        self._recorder.instruments.time(names.AGENT_DURATION, time.monotonic() - self._began, split)
        self._end_turn(error)


def input_attributes(text: str) -> dict[str, str]:
    """Return what a user said, as an attribute."""
    parts = [{"type": "text", "content": _content(text)}]
    return {names.INPUT_MESSAGES: json_bytes([{"role": "user", "parts": parts}]).decode()}


def _tool_name(event: ToolStarted) -> str:
    """Return the tool that a call is for; what a search found may be called through another."""
    if event.name != CALL_TOOL:
        return event.name
    try:
        found = _named.decode(event.arguments).name
    except (*UNREADABLE, UnicodeError):
        return event.name
    # The model writes it, so it could be any text.
    return found if _SERVER_TOOL.fullmatch(found) else event.name


def _model_attributes(model: str) -> dict[str, str]:
    provider, colon, slug = model.partition(":")
    if not colon:
        provider, slug = "", model
    told = {names.REQUEST_MODEL: slug}
    if provider:
        told[names.PROVIDER] = names.PROVIDERS.get(provider, provider)
    return told


def _usage_attributes(usage: TokenUsage) -> dict[str, int]:
    return dict(_figures(usage))


def _figures(usage: TokenUsage) -> Iterator[tuple[str, int]]:
    yield names.INPUT_TOKENS, usage.input_tokens
    yield names.OUTPUT_TOKENS, usage.output_tokens
    for name, figure in (
        (names.CACHE_READ, usage.cached_input_tokens),
        (names.CACHE_WRITE, usage.cache_write_input_tokens),
        (names.REASONING_TOKENS, usage.reasoning_output_tokens),
    ):
        if figure is not None:
            yield name, figure


def _error_type(event: TurnCompleted) -> str:
    """Return what sort of failure ended a turn; a word of few, never a message."""
    if event.status != "failed":
        return ""
    return event.tried[-1].reason if event.tried else "failed"


def _fail(span: Span, error: str) -> None:
    span.set_attribute(names.ERROR, error)
    span.set_status(Status(StatusCode.ERROR))


def _message(text: str) -> str:
    parts = [{"type": "text", "content": _content(text)}]
    return json_bytes([{"role": "assistant", "parts": parts}]).decode()


def _content(text: str) -> str:
    text = redact_known(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
