"""The loop: ask the model, run what it calls, and ask again until it is done.

Owns the turn between steps: making room, retrying, taking in what others sent, and
ending. Everything inside a step is in `step`. Invariant: the loop decides nothing about
tools, policy or models; it runs what it was given.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ..models.contract import ContextOverflow, ModelError
from ..prompt.events import TurnAborted
from ..usage import TokenUsage
from .compaction import is_full, make_room
from .contract import Outcome, TurnRun
from .events import Retrying
from .step import Step

__all__ = ["LoopHarness"]

_FIRST_DELAY = 0.2


@dataclass(slots=True)
class LoopHarness:
    """Weft's own loop."""

    name: str = "weft"
    stream_retries: int = 5
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = lambda: random.uniform(0.9, 1.1)  # noqa: S311

    async def run(self, run: TurnRun) -> Outcome:
        """Run the turn."""
        turn = _Turn(self, run)
        try:
            return await turn.steps()
        except asyncio.CancelledError:
            await turn.aborted()
            raise


@dataclass(slots=True)
class _Turn:
    """What a turn has come to between two steps."""

    harness: LoopHarness
    run: TurnRun
    usage: TokenUsage = field(default_factory=TokenUsage)
    text: str = ""
    failures: int = 0
    overflowed: bool = False

    async def steps(self) -> Outcome:
        while True:
            if is_full(self.run):
                await make_room(self.run, "auto", live=True)
            step = Step(self.run)
            await step.execute(self.usage)
            self.usage += step.usage
            self.text = step.text or self.text
            if step.error is not None:
                if not await self._recovered(step.error, progressed=step.recorded > 0):
                    return await self._failed(step.error)
                continue
            self.failures, self.overflowed = 0, False
            if step.stop:
                return await self._stopped()
            taken = await self.run.journal.take_inbox()
            if not (step.calls or step.wants_more or taken):
                return Outcome(status="completed", text=self.text, usage=self.usage)

    async def aborted(self) -> None:
        """Note that the turn was broken off, for the model and for the log."""
        journal = self.run.journal
        await journal.say(TurnAborted())
        await journal.finish("aborted", usage=self.usage)

    async def _stopped(self) -> Outcome:
        await self.aborted()
        return Outcome(status="interrupted", text=self.text, usage=self.usage)

    async def _failed(self, error: ModelError) -> Outcome:
        await self.run.journal.finish("failed", usage=self.usage)
        return Outcome(status="failed", text=self.text, usage=self.usage, error=str(error))

    async def _recovered(self, error: ModelError, *, progressed: bool) -> bool:
        """Whether asking again makes sense, after having waited for as long as it takes."""
        if isinstance(error, ContextOverflow):
            # Once: a view that was folded and still does not fit will not fit later.
            first, self.overflowed = not self.overflowed, True
            return first and await make_room(self.run, "overflow", live=True)
        if not error.retryable:
            return False
        self.failures = 1 if progressed else self.failures + 1
        most = self.harness.stream_retries
        if self.failures > most:
            return False
        backoff = _FIRST_DELAY * 2 ** (self.failures - 1) * self.harness.jitter()
        delay = backoff if error.retry_after is None else error.retry_after
        self.run.emit(
            Retrying(attempt=self.failures, most=most, delay=round(delay, 3), reason=str(error))
        )
        await self.harness.sleep(delay)
        return True
