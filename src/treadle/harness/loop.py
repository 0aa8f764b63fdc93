"""The loop: ask the model, run what it calls, and ask again until it is done.

Owns the turn between steps: making room, retrying, taking in what others sent, and
ending. Everything inside a step is in `step`. Invariant: the loop decides nothing about
tools, policy or models; it runs what it was given.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from msgspec import Struct

from ..core.aio import finish_uncancelled
from ..core.errors import TreadleError
from ..core.service import Service, later
from ..core.usage import TokenUsage
from ..engines.info import LOOP_CAPABILITIES, Capability
from ..models.contract import ContextOverflow, ModelError
from ..models.retry import Backoff
from ..policy.failures import failure_of
from ..prompt.events import TurnAborted
from ..tools.dispatch import by_name
from .compaction import is_full, make_room
from .contract import STREAM_PATIENCE, Outcome, Traits, TurnRun
from .events import Retrying
from .step import Step
from .witness import Witness

__all__ = ["LoopHarness"]


class LoopHarness(Struct):
    """Treadle's own loop."""

    name: str = "treadle"
    patience: Backoff = STREAM_PATIENCE
    """How often, and after which waits, an answer that broke off is asked for again."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All but what needs a thread of its own."""
        return LOOP_CAPABILITIES

    @property
    def traits(self) -> Traits:
        """It brings nothing of its own."""
        return Traits()

    async def run(self, run: TurnRun) -> Outcome:
        """Run the turn."""
        run.patience = self.patience
        turn = _Turn(run)
        try:
            return await turn.steps()
        except asyncio.CancelledError:
            await finish_uncancelled(turn.aborted())
            raise
        except Exception:
            # The cause is what matters; that the end could not be written follows from it.
            with suppress(TreadleError):
                await run.log.turns.finish("failed", usage=turn.usage)
            raise


class _Turn(Service):
    """What a turn has come to between two steps."""

    run: TurnRun
    witness: Witness = later()
    usage: TokenUsage = later()
    failures: int = 0
    overflowed: bool = False
    stuck: bool = False
    """Room could not be made; asking for it at each step would only cost."""
    ended: bool = False
    asked: bool = False
    """The model was asked at least once."""

    def __post_init__(self) -> None:
        self.witness, self.usage = Witness(by_name(self.run.tools)), self.run.spent

    async def steps(self) -> Outcome:
        while not self.ended:
            if self.run.log.has_mail:
                await self.run.log.take_inbox()
            await self.run.engine.before_step(first=not self.asked)
            self.asked = True
            if not self.stuck and is_full(self.run):
                self.stuck = not await make_room(self.run, "auto", live=True)
            step = Step(self.run, self.witness)
            try:
                await step.execute(self.usage)
            finally:
                self._note(step)
            if step.error is None:
                self.failures, self.overflowed = 0, False
            elif not await self._recovered(step.error):
                return self._failed(step.error)
            if step.stop:
                return await self._stopped()
            if step.refused:
                return self.witness.outcome("completed", self.usage, ended=False)
        return self.witness.outcome("completed", self.usage)

    async def aborted(self) -> None:
        """Note that the turn was broken off, for the model and for the log."""
        if not self.ended:
            await self.run.log.say(TurnAborted())
            await self.run.log.turns.finish("aborted", usage=self.usage)

    def _note(self, step: Step) -> None:
        self.usage += step.usage
        self.ended = step.ended

    async def _stopped(self) -> Outcome:
        await self.aborted()
        return self.witness.outcome("interrupted", self.usage)

    def _failed(self, error: ModelError) -> Outcome:
        return self.witness.outcome("failed", self.usage, failure_of(error), ended=False)

    async def _recovered(self, error: ModelError) -> bool:
        """Whether asking again makes sense, after having waited for as long as it takes."""
        if isinstance(error, ContextOverflow):
            # Once: a view that was folded and still does not fit will not fit later.
            first, self.overflowed = not self.overflowed, True
            return first and await make_room(self.run, "overflow", live=True)
        patience = self.run.patience
        delay = patience.wait(error, self.failures)
        if delay is None:
            return False
        self.failures += 1
        self.run.emit(
            Retrying(
                attempt=self.failures,
                most=patience.retries,
                delay=round(delay, 3),
                reason=str(error),
            )
        )
        await patience.sleep(delay)
        return True
