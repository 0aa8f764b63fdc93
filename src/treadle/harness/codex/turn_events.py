"""The events of a Codex turn: they become events of the harness, and items become entries.

Owns the steps of a turn that Codex runs: a step begins with the first sign of a response
and ends with its usage. Invariant: an item is in the log before the host learns of it,
and no output of a native compaction is taken for conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ...context.row import shape_of
from ...core.items import decode_item
from ...core.known_secrets import StreamBlanker, text_blanker
from ...core.redact import known_secrets
from ...core.usage import InputDetails, OutputDetails, TokenUsage, WireUsage
from ...core.wire import UNREADABLE
from ...log.requests import ResponseStatus
from ..attempt_facts import AttemptFacts
from ..contract import TurnRun
from ..event_stream import SHOWN_OUTPUT, step_started
from ..events import (
    ItemCompleted,
    NoticeRaised,
    PlanUpdated,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    UsageReported,
)
from .codex_threads import CodexThread
from .mirror import DeferredLog, MirrorResult
from .native_compaction import NativeCompactions
from .native_projection import is_model_output
from .protocol.notifications import (
    ErrorNotification,
    ItemCompletedNotification,
    ItemStartedNotification,
    MessageDeltaNotification,
    Notification,
    OutputDeltaNotification,
    PlanNotification,
    RawItemNotification,
    RawResponseNotification,
    ReasoningDeltaNotification,
    SummaryDeltaNotification,
    TurnCompletedNotification,
    WarningNotification,
)
from .protocol.types import (
    AgentMessageItem,
    CodexTurnError,
    CodexTurnInfo,
    CommandItem,
    CompactionItem,
    FileChangeItem,
    McpToolItem,
    ReasoningItem,
    TurnItem,
    WebSearchItem,
    parse_item,
)

__all__ = ["CodexActions", "TurnEvents", "response_usage"]

_ATTEMPT = re.compile(r"\b(\d+)/(\d+)\b")
"""The number of an attempt and of all attempts in a message of Codex."""
_PLAN_STATES = {"inProgress": "in_progress"}
"""The states of a plan's steps, in the words of the model's own tool."""

_wire_usage = msgspec.json.Decoder(WireUsage)


@dataclass(slots=True)
class CodexActions:
    """The commands and patches that Codex itself has started in one turn.

    A command counts as running until Codex reports its end, or its call has a result.
    """

    patches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The paths of each patch, by call."""
    interrupting: bool = False
    """Whether the turn is being interrupted: then a result does not mean that a command ended."""
    _running: dict[str, CommandItem] = field(default_factory=dict)

    @property
    def running(self) -> tuple[CommandItem, ...]:
        """Return the commands that Codex waits for, or waited for before the interruption."""
        return tuple(self._running.values())

    def start(self, item: TurnItem) -> None:
        """Note that an item has started."""
        match item:
            case CommandItem():
                self._running[item.id] = item
            case FileChangeItem():
                self.patches[item.id] = tuple(change.path for change in item.changes)

    def finish(self, name: str) -> None:
        """Note that an item has ended."""
        self._running.pop(name, None)

    def note_result(self, call_id: str | None) -> None:
        """Note that a call has its result; a command that still runs then runs on purpose."""
        if call_id is not None and not self.interrupting:
            self._running.pop(call_id, None)


@dataclass(slots=True)
class TurnEvents:
    """Handles the events of one Codex turn, and holds its result so far."""

    run: TurnRun
    thread: CodexThread
    compactions: NativeCompactions
    deferred_log: DeferredLog
    facts: AttemptFacts = field(default_factory=AttemptFacts)
    usage: TokenUsage = field(default_factory=TokenUsage)
    actions: CodexActions = field(default_factory=CodexActions)
    error: CodexTurnError | None = None
    ended: CodexTurnInfo | None = None
    _request_open: bool = False
    """Whether a request was sent whose response has not ended."""
    _last_is_message: bool = False
    """Whether the newest item is a message of the model."""
    _attempts: int = 0
    _text: StreamBlanker[str] = field(default_factory=text_blanker)
    _reasoning: StreamBlanker[str] = field(default_factory=text_blanker)
    _outputs: dict[str, StreamBlanker[str]] = field(default_factory=dict)
    """The output of the commands that run, by item."""

    @property
    def is_answered(self) -> bool:
        """Say whether the model has ended with a message and no call is open."""
        return self._last_is_message and not self._request_open and not self.compactions.running

    async def note_request(self) -> None:
        """Write to the log that a request with the present view goes out."""
        if self._request_open:
            return
        log = self.run.log
        self._request_open = True
        await self._report_written(await self.deferred_log.write_pending())
        if self.deferred_log.pending:
            # A request is noted after everything that it contains, or not at all.
            log.step += 1
            return
        row = await self.deferred_log.attempt(log.requests.record(log.requests.render()))
        if row is not None:
            self.run.emit(step_started(log.step, row))

    async def handle(self, event: Notification) -> None:
        """Handle one event of the turn."""
        match event:
            case RawItemNotification():
                await self._handle_item(event.item)
            case RawResponseNotification():
                await self._handle_response(event)
            case ItemStartedNotification():
                await self._handle_item_start(parse_item(event.item))
            case ItemCompletedNotification():
                await self._handle_item_end(parse_item(event.item))
            case ErrorNotification():
                self._handle_error(event)
            case TurnCompletedNotification():
                await self._handle_turn_end(event.turn)
            case _ if self.compactions.running is None:
                await self._emit_unlogged(event)

    def emit_delta(self, event: Notification) -> bool:
        """Emit a delta at once if nothing must be written before it; return whether it did."""
        if not self._request_open or self.compactions.running is not None:
            return False
        match event:
            case MessageDeltaNotification():
                if text := self._text.feed(event.delta, known_secrets()):
                    self.run.emit(TextDelta(text))
            case SummaryDeltaNotification() | ReasoningDeltaNotification():
                if text := self._reasoning.feed(event.delta, known_secrets()):
                    self.run.emit(ReasoningDelta(text))
            case _:
                return False
        return True

    async def break_off(self) -> None:
        """End an open request and an open compaction: the process died or nobody waits."""
        if self._request_open:
            await self._note_response_end(None, status="interrupted")
        self.compactions.fail()

    def report_killed(self, command: CommandItem) -> None:
        """Report that a command was killed; Codex sends no event for that."""
        self.actions.finish(command.id)
        self.run.emit(_tool_finished(command, "exec_command"))

    async def _emit_unlogged(self, event: Notification) -> None:
        """Emit events that are not, or not yet, in the log."""
        match event:
            case (
                MessageDeltaNotification()
                | SummaryDeltaNotification()
                | ReasoningDeltaNotification()
            ):
                await self.note_request()
                self.emit_delta(event)
            case OutputDeltaNotification():
                output = self._outputs.setdefault(event.item_id, text_blanker())
                if text := output.feed(event.delta, known_secrets()):
                    self.run.emit(ToolProgress(call_id=event.item_id, text=text))
            case PlanNotification():
                steps = tuple(
                    (step.step, _PLAN_STATES.get(step.status, step.status)) for step in event.plan
                )
                self.facts.planned = True
                self.run.emit(PlanUpdated(steps=steps, explanation=event.explanation))
            case WarningNotification():
                self.run.emit(NoticeRaised(level="warning", text=event.message))

    async def _handle_item(self, raw: Raw) -> None:
        if self.compactions.running:
            return
        self._last_is_message = shape_of(raw).role == "assistant"
        if is_model_output(raw):
            await self.note_request()
            self.facts.add_item(decode_item(raw))
        else:
            self.actions.note_result(shape_of(raw).call_id)
        await self._report_written(await self.deferred_log.write_item(self.thread.mirror, raw))

    async def _report_written(self, results: Iterable[MirrorResult]) -> None:
        """Emit the entries that are in the log now, and take mirrored mail from the inbox."""
        for result in results:
            if result.echo is not None and result.echo.mail is not None:
                # The message gets the place in the log that Codex gave it.
                await self.deferred_log.attempt(self.run.log.take_inbox(result.echo.mail))
            for entry in result.entries:
                self.run.emit(ItemCompleted(seq=entry.seq, item=Raw(entry.body)))

    async def _handle_response(self, event: RawResponseNotification) -> None:
        self._attempts = 0
        usage = response_usage(event)
        if self.compactions.running:
            self.usage += usage or TokenUsage()
            return
        await self.note_request()
        await self._note_response_end(usage, response_id=event.response_id)

    async def _note_response_end(
        self,
        usage: TokenUsage | None,
        *,
        status: ResponseStatus = "completed",
        response_id: str | None = None,
        error: str | None = None,
    ) -> None:
        log = self.run.log
        self._request_open = False
        await self.deferred_log.attempt(
            log.requests.record_answer(
                (),
                status=status,
                usage=usage,
                response_id=response_id,
                error=error,
                calibrates=False,
            )
        )
        if usage is not None:
            self.usage += usage
            window = log.setup.profile.effective_window
            self.run.emit(UsageReported(usage=usage, occupied=log.requests.occupied, window=window))

    async def _handle_item_start(self, item: TurnItem) -> None:
        match item:
            case CompactionItem():
                if self._request_open:
                    # The noted request was not sent: Codex compacts first.
                    await self._note_response_end(None, status="interrupted")
                await self.compactions.start(item.id)
            case AgentMessageItem() | ReasoningItem() if not self.compactions.running:
                await self.note_request()
            case _ if (call := _tool_call(item)) is not None:
                name, arguments = call
                self.actions.start(item)
                # Everything that Codex does counts as an effect, except a search.
                if not isinstance(item, WebSearchItem):
                    self.facts.effects.append(name)
                self.run.emit(ToolStarted(call_id=item.id, name=name, arguments=arguments))

    def _finish_deltas(self, item: TurnItem) -> None:
        """Emit what was held back of a text that has ended: it was no known secret."""
        known = known_secrets()
        match item:
            case AgentMessageItem():
                if text := self._text.finish(known):
                    self.run.emit(TextDelta(text))
            case ReasoningItem():
                if text := self._reasoning.finish(known):
                    self.run.emit(ReasoningDelta(text))
            case CommandItem() if item.id in self._outputs:
                if text := self._outputs.pop(item.id).finish(known):
                    self.run.emit(ToolProgress(call_id=item.id, text=text))

    async def _handle_item_end(self, item: TurnItem) -> None:
        self._finish_deltas(item)
        if isinstance(item, CompactionItem):
            await self.compactions.finish(item.id, self.thread)
        elif (call := _tool_call(item)) is not None:
            self.actions.finish(item.id)
            self.run.emit(_tool_finished(item, call[0]))

    def _handle_error(self, event: ErrorNotification) -> None:
        if not event.will_retry:
            self.error = event.error
            return
        self._attempts += 1
        numbers = _ATTEMPT.search(event.error.message)
        attempt, most = map(int, numbers.groups()) if numbers else (self._attempts, self._attempts)
        reason = event.error.additional_details or event.error.message
        self.run.emit(Retrying(attempt=attempt, most=most, delay=0.0, reason=reason))

    async def _handle_turn_end(self, turn: CodexTurnInfo) -> None:
        self.ended = turn
        self.error = turn.error or self.error
        if self._request_open:
            failed = turn.status == "failed"
            error = self.error.message if failed and self.error else None
            status: ResponseStatus = "failed" if failed else "interrupted"
            await self._note_response_end(None, status=status, error=error)
        if self.compactions.running:
            self.compactions.fail(self.error.message if self.error else "")


def response_usage(event: RawResponseNotification) -> TokenUsage | None:
    """Return the usage that the provider reported; numbers that it did not send are unknown."""
    if event.usage_metadata is not None:
        try:
            return TokenUsage.from_wire(_wire_usage.decode(event.usage_metadata.metadata))
        except UNREADABLE:
            pass
    counts = event.usage
    if counts is None:
        return None
    # Here a zero may stand for a number that the provider did not send.
    cached, written = counts.cached_input_tokens or None, counts.cache_write_input_tokens or None
    return TokenUsage.from_wire(
        WireUsage(
            input_tokens=counts.input_tokens,
            input_tokens_details=InputDetails(cached, written),
            output_tokens=counts.output_tokens,
            output_tokens_details=OutputDetails(counts.reasoning_output_tokens or None),
            total_tokens=counts.total_tokens,
        )
    )


def _tool_call(item: TurnItem) -> tuple[str, str] | None:
    """Return the name and the arguments of an action of Codex; None for other items."""
    match item:
        case CommandItem():
            return "exec_command", _json({"cmd": item.command, "workdir": item.cwd})
        case FileChangeItem():
            return "apply_patch", _json({"paths": [change.path for change in item.changes]})
        case McpToolItem():
            return f"{item.server}.{item.tool}", bytes(item.arguments).decode()
        case WebSearchItem():
            return "web_search", _json({"query": item.query})
    return None


def _tool_finished(item: TurnItem, name: str) -> ToolFinished:
    output = getattr(item, "aggregated_output", None) or ""
    took = getattr(item, "duration_ms", None) or 0
    status = getattr(item, "status", "completed")
    return ToolFinished(
        call_id=item.id,
        name=name,
        success=status in ("", "completed") and not getattr(item, "exit_code", 0),
        seconds=round(took / 1000, 4),
        output=output[:SHOWN_OUTPUT],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
