"""The turn that runs now: its task, and the events of it that the host hears.

Owns how a turn is begun, interrupted, handed back and waited for. Invariants: one turn at a time;
when the host stops listening, the turn is over before anything else of the thread goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.aio import finish_uncancelled
from ..core.errors import TurnLeft
from ..harness.event_stream import EventQueue, EventStream
from ..harness.events import TurnCompleted

if TYPE_CHECKING:
    from ..harness.events import Event
    from .turn import TurnRunner

__all__ = ["RunningTurn"]

_logger = logging.getLogger(__name__)


class RunningTurn:
    """The turn of one thread, as long as one runs."""

    def __init__(self, thread: str, events: EventStream) -> None:
        self._thread, self._events = thread, events
        self._runner: TurnRunner | None = None
        self._task: asyncio.Task[None] | None = None
        self._interrupted = False

    @property
    def is_open(self) -> bool:
        """Whether a host listens to a turn."""
        return self._task is not None

    @property
    def began(self) -> bool:
        """Whether the newest turn has taken its input."""
        return self._runner is not None and self._runner.began

    async def run(
        self,
        runner: Callable[[], TurnRunner],
        work: Callable[[TurnRunner], Awaitable[None]],
        *,
        turn_id: str | None,
        waiting: Iterable[Event],
    ) -> AsyncGenerator[Sequence[Event], None]:
        """Do the `work` of a turn, and yield what waits for an answer already, then its events.

        They come in batches: each waits no longer than it takes to hear those before it.
        """
        queue = EventQueue()
        self._events.listener = queue.put
        self._interrupted = False
        for question in waiting:
            queue.put(question)
        self._task = asyncio.create_task(self._work(runner, work))
        self._task.add_done_callback(lambda _: queue.close())
        try:
            while taken := await queue.take():
                yield taken
            if self._interrupted and self._task.cancelled():
                # It was interrupted before it could do anything.
                yield (TurnCompleted(turn=turn_id or "", status="interrupted"),)
            else:
                await self._task
        finally:
            await self.stop()
            self._events.listener = self._task = None

    async def _work(
        self, make: Callable[[], TurnRunner], work: Callable[[TurnRunner], Awaitable[None]]
    ) -> None:
        runner = self._runner = make()
        try:
            await work(runner)
        except asyncio.CancelledError:
            if runner.leaving:
                raise TurnLeft(self._thread) from None
            if not (self._interrupted and runner.began):
                raise

    def interrupt(self) -> None:
        """Interrupt it; do nothing if none runs."""
        if self._task is not None and not self._task.done() and not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    def hand_back(self, *, now: bool) -> None:
        """Leave it to the next process, at its next step or `now`; do nothing if none runs."""
        if self._task is None or self._task.done() or self._runner is None:
            return
        self._runner.leaving = True
        if now:
            self._task.cancel()

    async def stop(self) -> None:
        """Interrupt it, and wait for its end."""
        task = self._task
        if task is not None and not task.done():
            self.interrupt()
            await finish_uncancelled(_wait_unheard(task))


async def _wait_unheard(task: asyncio.Task[None]) -> None:
    """Wait for a turn that nobody listens to any more."""
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.warning("a turn that was left failed: %s", error)
