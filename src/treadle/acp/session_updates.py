"""Updates: events of a turn as a client hears of them.

Owns the translation, and what of a running call is remembered for it. Invariants: a call is told
as started once and as ended once; notices are thoughts, never words of the agent; what an agent
of the thread does is told by its questions and its end only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeAlias

from acp.helpers import (
    plan_entry,
    start_tool_call,
    text_block,
    update_plan,
    update_tool_call,
)
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    Cost,
    PlanEntryStatus,
    SessionInfoUpdate,
    StopReason,
    ToolCallProgress,
    ToolCallStart,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)
from msgspec import Struct

from ..core.money import Bill
from ..core.redact import redact_known
from ..core.usage import TokenUsage
from ..harness.events import (
    AgentReported,
    AttemptFailed,
    CompactionFinished,
    CompactionStarted,
    Event,
    NoticeRaised,
    PlanUpdated,
    ReasoningDelta,
    Retrying,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
    UsageReported,
)
from .call_views import Contents, call_kind, call_title, clip_output, patch_view, raw_input

__all__ = ["SessionUpdate", "TurnUpdates", "stop_reason", "told_cost", "told_usage"]

SessionUpdate: TypeAlias = (
    AgentMessageChunk
    | AgentPlanUpdate
    | AgentThoughtChunk
    | SessionInfoUpdate
    | ToolCallProgress
    | ToolCallStart
    | UsageUpdate
    | UserMessageChunk
)
"""What a client can be told of a session while it runs."""

_TAIL = 4_000
"""Characters of a running command's output that are shown."""
_PAUSE = 0.25
"""Seconds between two looks at one running command."""
_STATES: dict[str, PlanEntryStatus] = {"completed": "completed", "in_progress": "in_progress"}


class _Call(Struct):
    """A call that runs."""

    contents: list[Contents]
    tail: str = ""
    told: float = 0.0


class TurnUpdates:
    """Translates the events of the turns of one session."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._calls: dict[str, _Call] = {}
        self._message = 0
        """Counts what the agent says, so that clients can tell one message from the next."""

    def of(self, event: Event) -> Iterator[SessionUpdate]:
        """Yield what a client is told of an event."""
        match event:
            case StepStarted():
                self._message += 1
            case TextDelta(text=text):
                yield self._chunk(text)
            case ReasoningDelta(text=text):
                yield self._thought(text)
            case ToolStarted():
                yield self._start(event)
            case ToolProgress():
                yield from self._progress(event)
            case ToolFinished():
                yield self._finish(event)
            case PlanUpdated(steps=steps):
                yield update_plan(
                    plan_entry(text, status=_STATES.get(state, "pending")) for text, state in steps
                )
            case UsageReported(occupied=occupied, window=int(window)):
                yield UsageUpdate(session_update="usage_update", used=occupied, size=window)
            case _:
                if notice := _notice(event):
                    yield self._thought(f"{notice}\n")

    def contents(self, call_id: str) -> list[Contents] | None:
        """Return what the client was told that a running call holds; None for an unknown one."""
        call = self._calls.get(call_id)
        return None if call is None else call.contents

    def _chunk(self, text: str) -> AgentMessageChunk:
        return AgentMessageChunk(
            session_update="agent_message_chunk",
            content=text_block(text),
            message_id=f"message-{self._message}",
        )

    def _thought(self, text: str) -> AgentThoughtChunk:
        return AgentThoughtChunk(
            session_update="agent_thought_chunk",
            content=text_block(redact_known(text)),
            message_id=f"thought-{self._message}",
        )

    def _start(self, event: ToolStarted) -> ToolCallStart:
        contents, places = patch_view(event.name, event.arguments, self._cwd)
        self._calls[event.call_id] = _Call(contents)
        return start_tool_call(
            event.call_id,
            call_title(event.name, event.arguments),
            kind=call_kind(event.name, event.arguments),
            status="in_progress",
            content=contents or None,
            locations=places or None,
            raw_input=raw_input(event.arguments),
        )

    def _progress(self, event: ToolProgress) -> Iterator[ToolCallProgress]:
        call = self._calls.get(event.call_id)
        if call is None:
            return
        call.tail = (call.tail + event.text)[-_TAIL:]
        now = time.monotonic()
        if now - call.told >= _PAUSE:
            call.told = now
            contents = [*call.contents, clip_output(call.tail)]
            yield update_tool_call(event.call_id, status="in_progress", content=contents)

    def _finish(self, event: ToolFinished) -> ToolCallProgress:
        call = self._calls.pop(event.call_id, None)
        before = call.contents if call is not None else []
        return update_tool_call(
            event.call_id,
            status="completed" if event.success else "failed",
            content=[*before, clip_output(event.output)],
        )


def told_cost(bill: Bill) -> Cost | None:
    """Return a cost as clients are told it; None where a part of it is unknown."""
    if not bill.known or len(bill.amounts) != 1:
        return None
    ((currency, amount),) = bill.amounts.items()
    return Cost(amount=amount, currency=currency)


def stop_reason(done: TurnCompleted) -> StopReason:
    """Return why a turn has ended, in the words of the protocol."""
    if done.refused:
        return "refusal"
    if done.limit is not None:
        return "max_tokens" if done.limit.limit == "tokens" else "max_turn_requests"
    return "end_turn" if done.status == "completed" else "cancelled"


def told_usage(usage: TokenUsage) -> Usage:
    """Return what was used as clients are told it."""
    return Usage(
        total_tokens=usage.total_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        thought_tokens=usage.reasoning_output_tokens,
        cached_read_tokens=usage.cached_input_tokens,
        cached_write_tokens=usage.cache_write_input_tokens,
    )


def _notice(event: Event) -> str:
    match event:
        case NoticeRaised(text=text):
            return text
        case Retrying(reason=reason):
            return f"{reason}; trying again"
        case AttemptFailed(tried=tried, next=following):
            return f"{tried.model}: {tried.error or tried.reason}; asking {following.model}"
        case CompactionStarted(tokens=tokens):
            return f"compacting about {tokens:,} tokens into a summary"
        case CompactionFinished(error=None):
            return f"compacted to {event.tokens_after:,} tokens"
        case CompactionFinished(error=error):
            return f"not compacted: {error}"
        case AgentReported(nickname=name, event=TurnCompleted(status=status)):
            return f"the agent {name} has ended: {status}"
        case _:
            return ""
