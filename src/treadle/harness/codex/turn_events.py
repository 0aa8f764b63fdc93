"""The events of a Codex turn: they become events of the harness, and items become entries.

Owns the steps of a turn that Codex runs: a step begins with the first sign of a response
and ends with its usage. Invariant: an item is in the log before the host learns of it,
and no output of a native compaction is taken for conversation.
"""

from __future__ import annotations

import re
from collections import Counter
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
from ..event_stream import step_started
from ..events import (
    ItemCompleted,
    ModelReported,
    NoticeRaised,
    PlanUpdated,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolProgress,
    ToolStarted,
    UsageReported,
)
from ..live_events import PARAGRAPH
from .call_guard import CallGuard
from .codex_actions import CodexActions, action_finished, action_of, has_succeeded
from .codex_threads import CodexThread
from .hook_config import WatchedTools
from .mirror import DeferredLog, MirrorResult
from .native_compaction import NativeCompactions
from .native_projection import is_model_output
from .protocol.notifications import (
    ErrorNotification,
    ItemCompletedNotification,
    ItemStartedNotification,
    MessageDeltaNotification,
    ModelReroutedNotification,
    Notification,
    OutputDeltaNotification,
    PlanNotification,
    RawItemNotification,
    RawResponseNotification,
    ReasoningDeltaNotification,
    SummaryDeltaNotification,
    TurnCompletedNotification,
    TypingNotification,
    WarningNotification,
)
from .protocol.types import (
    AgentMessageItem,
    CodexTurnError,
    CodexTurnInfo,
    CommandItem,
    CompactionItem,
    ReasoningItem,
    TurnItem,
    WebSearchItem,
    parse_item,
)
from .provider_waits import is_unreached

__all__ = ["TurnEvents", "response_usage"]

_ATTEMPT = re.compile(r"\b(\d+)/(\d+)\b")
"""The number of an attempt and of all attempts in a message of Codex."""
_OF_USER = "userShell"
"""The source of a command that the user ran."""
_PLAN_STATES = {"inProgress": "in_progress"}
"""The states of a plan's steps, in the words of the model's own tool."""

_wire_usage = msgspec.json.Decoder(WireUsage)


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
    guard: CallGuard = field(init=False)
    repeats: Counter[str] = field(default_factory=Counter)
    """How many results of a call come before the one that counts, by its id."""
    error: CodexTurnError | None = None
    ended: CodexTurnInfo | None = None
    _request_open: bool = False
    """Whether a request was sent whose response has not ended."""
    _last_is_message: bool = False
    """Whether the newest item is a message of the model."""
    _last_is_output: bool = False
    """Whether the newest item is the output of a call."""
    unreached: bool = False
    """Whether Codex could not reach the provider just now, and asks again."""
    _attempts: int = 0
    _text: StreamBlanker[str] = field(default_factory=text_blanker)
    _reasoning: StreamBlanker[str] = field(default_factory=text_blanker)
    _reasoning_place: tuple[str, int] | None = None
    """The part of reasoning that was heard last."""
    _outputs: dict[str, StreamBlanker[str]] = field(default_factory=dict)
    """The output of the commands that run, by item."""

    def __post_init__(self) -> None:
        self.guard = CallGuard(self.run, WatchedTools.of(self.run.hooks))

    @property
    def is_answered(self) -> bool:
        """Say whether the model has ended with a message and no call is open."""
        return self._last_is_message and not self._request_open and not self.compactions.running

    @property
    def is_between_steps(self) -> bool:
        """Say whether all calls of the last answer have their outputs, for another request."""
        return (
            self._last_is_output
            and not self._request_open
            and not self.compactions.running
            and not self.actions.running
            and not self.run.log.view.open_calls
        )

    async def note_request(self) -> None:
        """Write to the log that a request with the present view goes out."""
        if self._request_open:
            return
        log = self.run.log
        self._request_open = True
        await self._report_written(await self.deferred_log.write_pending())
        if self.deferred_log.pending or log.view.open_calls:
            # A request is noted after everything that it contains, or not at all. The outputs of
            # a resumed thread come from its rollout, and on a full disk they never do.
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
                self.guard.check_asked(asks_hooks=self.thread.asks_hooks)
                await self._handle_item_start(parse_item(event.item))
            case ItemCompletedNotification():
                await self._handle_item_end(parse_item(event.item))
            case TypingNotification():
                await self.guard.check_typing(event.item_id, event.process_id, event.stdin)
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
            case (
                SummaryDeltaNotification(summary_index=index)
                | ReasoningDeltaNotification(content_index=index)
            ):
                place, before = (event.item_id, index), self._reasoning_place
                self._reasoning_place = place
                gap = PARAGRAPH if before not in (None, place) else ""
                if text := self._reasoning.feed(gap + event.delta, known_secrets()):
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
        self.run.emit(action_finished(command, "exec_command"))

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
            case ModelReroutedNotification():
                self.run.emit(ModelReported(model=event.to_model))
            case WarningNotification():
                self.run.emit(NoticeRaised(level="warning", text=event.message))

    async def _handle_item(self, raw: Raw) -> None:
        if self.compactions.running:
            return
        self._last_is_message = shape_of(raw).role == "assistant"
        self._last_is_output = False
        if is_model_output(raw):
            await self.note_request()
            item = decode_item(raw)
            self.facts.add_item(item)
            self.guard.note_item(item)
        elif self._is_early(shape_of(raw).call_id):
            return
        else:
            self._last_is_output = shape_of(raw).call_id is not None
            self.actions.note_result(shape_of(raw).call_id)
            self.guard.note_output(raw)
        await self._report_written(await self.deferred_log.write_item(self.thread.mirror, raw))

    def _is_early(self, call_id: str | None) -> bool:
        """Say whether another result of the call comes: Codex made it twice, and it ran once.

        The last one counts: instead of the others Codex may say that it took a call back.
        """
        if call_id is None or not self.repeats[call_id]:
            return False
        self.repeats[call_id] -= 1
        return True

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
            log = self.run.log
            # What Codex asks for by itself is noted nowhere else.
            await self.deferred_log.attempt(
                log.requests.record_completion(None, "compaction", origin=log.origin, usage=usage)
            )
            self.run.budget.add(usage)
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
            )
        )
        self.run.budget.add(usage, steps=int(status == "completed"))
        if usage is not None:
            self.usage += usage
            window = log.setup.profile.effective_window
            self.run.emit(
                UsageReported(
                    usage=usage,
                    occupied=log.requests.occupied,
                    window=window,
                    model=log.asked_model,
                )
            )

    async def _handle_item_start(self, item: TurnItem) -> None:
        match item:
            case CompactionItem():
                if self._request_open:
                    # The noted request was not sent: Codex compacts first.
                    await self._note_response_end(None, status="interrupted")
                await self.compactions.start(item.id)
            case AgentMessageItem(delivery="async"):
                # No part of an answer: a call has asked something, and goes on.
                pass
            case AgentMessageItem() | ReasoningItem() if not self.compactions.running:
                await self.note_request()
            case _ if (call := action_of(item)) is not None:
                name, arguments = call
                self.actions.start(item)
                # Everything that Codex does counts as an effect, except a search.
                if not isinstance(item, WebSearchItem):
                    self.facts.effects.append(name)
                if getattr(item, "source", "") != _OF_USER:
                    self.guard.start(item.id, name, arguments)
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
        elif isinstance(item, AgentMessageItem) and item.delivery == "async":
            self.run.emit(NoticeRaised(level="info", text=f"the model asks: {item.text}"))
        elif (call := action_of(item)) is not None:
            self.actions.finish(item.id)
            output = getattr(item, "aggregated_output", None) or ""
            self.guard.finish(item.id, output, success=has_succeeded(item))
            self.run.emit(action_finished(item, call[0]))

    def _handle_error(self, event: ErrorNotification) -> None:
        if not event.will_retry:
            self.error = event.error
            return
        self._attempts += 1
        self.unreached = is_unreached(event.error)
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
