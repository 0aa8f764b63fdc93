"""Following a turn of Codex's: its events become ours, its items entries.

Owns the steps of a turn that somebody else runs: a step begins with the first sign of a
response and ends with its usage. Invariant: what a host is told of an item is in the log
by then, and nothing that a native compaction says is taken for the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ...context.row import shape_of
from ...core.entries import Entry
from ...core.items import decode_item
from ...core.patterns import regex
from ...core.usage import TokenUsage
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
from .acts import CodexActions
from .attachment import CodexThread
from .figures import response_usage
from .keeping import DeferredLog
from .mirror import MirrorResult
from .native import NativeCompactions
from .protocol import items, notifications, values
from .protocol.items import parse_item
from .protocol.notifications import Notification
from .provided import is_model_output

__all__ = ["TurnEvents"]

_COUNTED = regex(r"\b(\d+)/(\d+)\b")
"""How Codex says which try it is, and of how many."""
_STATES = {"inProgress": "in_progress"}
"""How far steps of a plan are, in the words of the model's own tool."""


@dataclass(slots=True)
class TurnEvents:
    """What a turn has come to, as far as it has been heard."""

    run: TurnRun
    attachment: CodexThread
    compactions: NativeCompactions
    log: DeferredLog
    facts: AttemptFacts = field(default_factory=AttemptFacts)
    usage: TokenUsage = field(default_factory=TokenUsage)
    actions: CodexActions = field(default_factory=CodexActions)
    failure: values.CodexTurnError | None = None
    ended: values.CodexTurnInfo | None = None
    _asked: bool = False
    """A request is out whose response has not ended."""
    _spoke: bool = False
    """The newest item is something that the model said."""
    _tries: int = 0

    @property
    def said_all(self) -> bool:
        """Whether nothing was left to be said: the model has spoken, and called nothing."""
        return self._spoke and not self._asked and not self.compactions.open

    async def note_request(self) -> None:
        """Note that the model is asked with what the view shows."""
        if self._asked:
            return
        log = self.run.log
        self._asked = True
        await self._taken(await self.log.write_pending())
        if self.log.pending:
            # A request is noted behind all that it holds, or not at all.
            log.step += 1
            return
        row = await self.log.attempt(log.requests.record(log.requests.render()))
        if row is not None:
            self.run.emit(step_started(log.step, row))

    async def handle(self, event: Notification) -> None:
        """Take in one event of the turn."""
        match event:
            case notifications.RawItemNotification():
                await self._item(event.item)
            case notifications.RawResponseNotification():
                await self._response(event)
            case notifications.ItemStartedNotification():
                await self._started(parse_item(event.item))
            case notifications.ItemCompletedNotification():
                await self._completed(parse_item(event.item))
            case notifications.ErrorNotification():
                self._error(event)
            case notifications.TurnCompletedNotification():
                await self._over(event.turn)
            case _ if self.compactions.open is None:
                await self._said(event)

    def emit_delta(self, event: Notification) -> bool:
        """Tell words at once, where nothing has to be written before; whether that was so."""
        if not self._asked or self.compactions.open is not None:
            return False
        match event:
            case notifications.MessageDeltaNotification():
                self.run.emit(TextDelta(event.delta))
            case (
                notifications.SummaryDeltaNotification()
                | notifications.ReasoningDeltaNotification()
            ):
                self.run.emit(ReasoningDelta(event.delta))
            case _:
                return False
        return True

    async def _said(self, event: Notification) -> None:
        """Pass on what the log has no place for, or not yet."""
        match event:
            case (
                notifications.MessageDeltaNotification()
                | notifications.SummaryDeltaNotification()
                | notifications.ReasoningDeltaNotification()
            ):
                await self.note_request()
                self.emit_delta(event)
            case notifications.OutputDeltaNotification():
                self.run.emit(ToolProgress(call_id=event.item_id, text=event.delta))
            case notifications.PlanNotification():
                steps = tuple(
                    (step.step, _STATES.get(step.status, step.status)) for step in event.plan
                )
                self.facts.planned = True
                self.run.emit(PlanUpdated(steps=steps, explanation=event.explanation))
            case notifications.WarningNotification():
                self.run.emit(NoticeRaised(level="warning", text=event.message))

    async def break_off(self) -> None:
        """The process has ended, or nobody waits any more."""
        if self._asked:
            await self._received(None, status="interrupted")
        self.compactions.fail()

    async def _item(self, raw: Raw) -> None:
        if self.compactions.open:
            return
        self._spoke = shape_of(raw).role == "assistant"
        if is_model_output(raw):
            await self.note_request()
            self.facts.add_item(decode_item(raw))
        else:
            self.actions.note_result(shape_of(raw).call_id)
        await self._taken(await self.log.write_item(self.attachment.mirror, raw))

    async def _taken(self, mirrored: Iterable[MirrorResult]) -> None:
        """Tell of what is in the log now."""
        for done in mirrored:
            if done.echo is not None and done.echo.mail is not None:
                # It leaves the inbox in the place that Codex gave it.
                await self.log.attempt(self.run.log.take_inbox(done.echo.mail))
            self._show(done.entries)

    async def _response(self, event: notifications.RawResponseNotification) -> None:
        self._tries = 0
        usage = response_usage(event)
        if self.compactions.open:
            self.usage += usage or TokenUsage()
            return
        await self.note_request()
        await self._received(usage, response_id=event.response_id)

    async def _received(
        self,
        usage: TokenUsage | None,
        *,
        status: ResponseStatus = "completed",
        response_id: str | None = None,
        error: str | None = None,
    ) -> None:
        log = self.run.log
        self._asked = False
        marked = log.requests.record_answer(
            (),
            status=status,
            usage=usage,
            response_id=response_id,
            error=error,
            calibrates=False,
        )
        await self.log.attempt(marked)
        if usage is not None:
            self.usage += usage
            window = log.setup.profile.effective_window
            self.run.emit(UsageReported(usage=usage, occupied=log.requests.occupied, window=window))

    async def _started(self, item: items.TurnItem) -> None:
        match item:
            case items.CompactionItem():
                if self._asked:
                    # What the request was noted for has not been sent: it is folded first.
                    await self._received(None, status="interrupted")
                await self.compactions.start(item.id)
            case items.AgentMessageItem() | items.ReasoningItem() if not self.compactions.open:
                await self.note_request()
            case _ if (told := _tool(item)) is not None:
                name, arguments = told
                self.actions.start(item)
                self._witnessed(item, name)
                self.run.emit(ToolStarted(call_id=item.id, name=name, arguments=arguments))

    async def _completed(self, item: items.TurnItem) -> None:
        if isinstance(item, items.CompactionItem):
            await self.compactions.finish(item.id, self.attachment)
        elif (told := _tool(item)) is not None:
            self.actions.finish(item.id)
            self.run.emit(_finished(item, told[0]))

    def _witnessed(self, item: items.TurnItem, name: str) -> None:
        """What Codex does itself counts as done, unless it can only have looked."""
        if not isinstance(item, items.WebSearchItem):
            self.facts.effects.append(name)

    def report_killed(self, command: items.CommandItem) -> None:
        """Tell that a command was ended by force: Codex says nothing of it."""
        self.actions.finish(command.id)
        self.run.emit(_finished(command, "exec_command"))

    def _error(self, event: notifications.ErrorNotification) -> None:
        if not event.will_retry:
            self.failure = event.error
            return
        self._tries += 1
        told = _COUNTED.search(event.error.message)
        attempt, most = map(int, told.groups()) if told else (self._tries, self._tries)
        reason = event.error.additional_details or event.error.message
        self.run.emit(Retrying(attempt=attempt, most=most, delay=0.0, reason=reason))

    async def _over(self, turn: values.CodexTurnInfo) -> None:
        self.ended = turn
        self.failure = turn.error or self.failure
        if self._asked:
            failed = turn.status == "failed"
            error = self.failure.message if failed and self.failure else None
            await self._received(None, status="failed" if failed else "interrupted", error=error)
        if self.compactions.open:
            self.compactions.fail(self.failure.message if self.failure else "")

    def _show(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.run.emit(ItemCompleted(seq=entry.seq, item=Raw(entry.body)))


def _tool(item: items.TurnItem) -> tuple[str, str] | None:
    """The name and the arguments of what Codex does itself; None for what is no call."""
    match item:
        case items.CommandItem():
            return "exec_command", _json({"cmd": item.command, "workdir": item.cwd})
        case items.FileChangeItem():
            return "apply_patch", _json({"paths": [change.path for change in item.changes]})
        case items.McpToolItem():
            return f"{item.server}.{item.tool}", bytes(item.arguments).decode()
        case items.WebSearchItem():
            return "web_search", _json({"query": item.query})
    return None


def _finished(item: items.TurnItem, name: str) -> ToolFinished:
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
