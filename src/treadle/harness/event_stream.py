"""The event stream: the way of events from a turn to those who listen.

Owns who gets what, the events that wait for whoever runs the turn, which words of an event
are redacted, and how much of a tool's output is shown. Invariants: nobody who listens can
break the turn or sees a secret; what the model said and what tools answered is passed on as
it was kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from ..core.items import text_of
from ..core.redact import blank_value, redact, redact_known
from ..store.contract import LedgerRow
from ..tools.dispatch import FinishedCall
from .events import (
    CompactionFinished,
    Event,
    NoticeRaised,
    ReasoningDelta,
    Retrying,
    StepStarted,
    TextDelta,
    ToolFinished,
    TurnCompleted,
)

__all__ = ["SHOWN_OUTPUT", "EventQueue", "EventStream", "call_finished", "step_started"]

_logger = logging.getLogger(__name__)

SHOWN_OUTPUT = 2_000
"""Characters of an output that are shown; the log has all of it."""

_PIECES = (TextDelta, ReasoningDelta)
"""Nearly all events; what is done for each of them decides what an answer costs."""
_QUOTING = (NoticeRaised, Retrying, CompactionFinished, TurnCompleted)
"""Events with words of others in them."""


class EventStream:
    """Everyone who is told what happens in a thread."""

    def __init__(self) -> None:
        self.observers: list[Callable[[Event], None]] = []
        self.listener: Callable[[Event], None] | None = None
        """Who runs the turn; nobody in between."""
        self.compacted = False
        """The view was compacted since somebody last looked."""

    def emit(self, event: Event) -> None:
        """Tell everyone."""
        listener = self.listener
        if isinstance(event, _PIECES):
            text = redact_known(event.text)
            event = event if text is event.text else replace(event, text=text)
        else:
            event = _without_secrets(event)
            self._follow(event)
        for observer in self.observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - who only watches must not end the turn
                _logger.warning("an observer failed: %r", error)
        if listener is not None:
            listener(event)

    def _follow(self, event: Event) -> None:
        """Note what an event changes here."""
        if isinstance(event, CompactionFinished) and not event.error:
            self.compacted = True
        elif isinstance(event, TurnCompleted):
            # Agents go on; what they do from here on is not of this turn.
            self.listener = None

    def warn(self, text: str) -> None:
        """Tell the user something in one line."""
        self.emit(NoticeRaised(level="warning", text=text))


class EventQueue:
    """Events that wait for whoever runs a turn."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []
        self._closed = False
        self._reader: asyncio.Future[None] | None = None

    def put(self, event: Event) -> None:
        """Add one."""
        self._waiting.append(event)
        if self._reader is not None:
            self._wake()

    def close(self) -> None:
        """Say that there will be no more."""
        self._closed = True
        self._wake()

    async def take(self) -> list[Event]:
        """Return all that wait, or will next; empty when there will be no more."""
        while not (self._waiting or self._closed):
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        taken, self._waiting = self._waiting, []
        return taken

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)


def _without_secrets(event: Event) -> Event:
    if not isinstance(event, _QUOTING):
        return blank_value(event)
    match event:
        case NoticeRaised():
            return replace(event, text=redact(event.text))
        case Retrying():
            return replace(event, reason=redact(event.reason))
        case CompactionFinished() | TurnCompleted() if event.error:
            event = replace(event, error=redact(event.error))
    return blank_value(event)


def step_started(step: int, row: LedgerRow) -> StepStarted:
    """Return the event that a request goes out, as the ledger sees it."""
    return StepStarted(step=step, size=row.size, shared=row.shared_size, reason=row.reason)


def call_finished(finished: FinishedCall) -> ToolFinished:
    """Return the event that a call of a tool of ours has its result."""
    return ToolFinished(
        call_id=finished.call.call_id,
        name=finished.call.name,
        success=finished.result.success,
        seconds=round(finished.seconds, 4),
        output=text_of(finished.result.output)[:SHOWN_OUTPUT],
    )
