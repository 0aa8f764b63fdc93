"""The loop: ask the model, run what it calls, and ask again until it is done.

Owns the turn between steps: making room, retrying, taking in what others sent, and
ending. Everything inside a step is in `step`. Invariant: the loop decides nothing about
tools, policy or models; it runs what it was given.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from ..core.aio import finish_uncancelled
from ..core.errors import TreadleError, TurnLeft
from ..engines.contract import LOOP_CAPABILITIES, Capability
from ..models.contract import ContextOverflow, InvalidRequest, ModelError, RateLimited
from ..models.retry import Backoff
from ..policy.failures import Failure, failure_of
from ..policy.limits import LimitReached, outcome_of
from ..prompt.announcements import TurnAborted
from ..prompt.window_use import WindowUseState
from .attempt_facts import AttemptFacts
from .budget import OutOfTime, tell_limit
from .compaction import is_full, make_room
from .contract import STREAM_BACKOFF, Outcome, Traits, TurnRun
from .events import Retrying
from .refused_images import is_about_image, leave_out_images
from .step import Step

__all__ = ["LoopHarness"]


class LoopHarness(Struct):
    """Treadle's own loop."""

    name: str = "treadle"
    backoff: Backoff = STREAM_BACKOFF
    """How often, and after which waits, an answer that broke off is asked for again."""
    traits: Traits = Traits()
    """It brings nothing of its own."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All but what needs a thread of its own."""
        return LOOP_CAPABILITIES

    async def run(self, run: TurnRun) -> Outcome:
        """Run the turn."""
        run.backoff = self.backoff
        if run.retries is not None:
            run.backoff = replace(self.backoff, retries=run.retries)
        turn = _Turn(run)
        try:
            async with run.budget.clock():
                return await turn.run_steps()
        except OutOfTime as over:
            return await finish_uncancelled(turn.end_at(over.reached))
        except TurnLeft:
            raise
        except asyncio.CancelledError:
            if not run.leaving():
                await finish_uncancelled(turn.abort())
            raise
        except Exception:
            # The cause is what matters; that the end could not be written follows from it.
            with suppress(TreadleError):
                await run.log.turns.finish("failed", usage=turn.usage)
            raise


class _Turn:
    """What a turn has come to between two steps."""

    def __init__(self, run: TurnRun) -> None:
        self.run = run
        self.facts = AttemptFacts(run.tools_by_name)
        self.usage = run.spent
        self.failures = 0
        self.overflowed = False
        self.stuck = False
        """Room could not be made; asking for it at each step would only cost."""
        self.ended = False
        self.asked = False
        """The model was asked at least once."""

    async def run_steps(self) -> Outcome:
        run = self.run
        while not self.ended:
            if run.leaving():
                raise TurnLeft(run.log.id)
            if (reached := run.budget.reached()) is not None:
                return await self.end_at(reached)
            if run.log.has_mail:
                await run.log.take_inbox()
            await run.engine.before_step(first=not self.asked)
            self.asked = True
            if not self.stuck and is_full(run):
                self.stuck = not await make_room(run, "auto", live=True)
            await self._tell_window_use()
            step = Step(run, self.facts)
            try:
                await step.execute(self.usage)
            finally:
                self.usage += step.usage
                self.ended = step.ended
            if step.error is None:
                self.failures, self.overflowed = 0, False
            elif not await self._wait_and_retry(step.error):
                failure = failure_of(step.error)
                return self.facts.outcome("failed", self.usage, failure, ended=False)
            if (outcome := await self._outcome_of(step)) is not None:
                return outcome
        return self.facts.outcome("completed", self.usage)

    async def _outcome_of(self, step: Step) -> Outcome | None:
        """Return how the turn ends with a step that did not end it in the log, if it does."""
        if step.stop:
            await self.abort()
            return self.facts.outcome("interrupted", self.usage)
        if step.refused:
            return self.facts.outcome("completed", self.usage, ended=False)
        if not self.ended and (stuck := await self._help_out(step)) is not None:
            return self.facts.outcome("failed", self.usage, stuck, ended=False)
        return None

    async def _help_out(self, step: Step) -> Failure | None:
        """Tell a model that is stuck what it does; return why the turn ends, if that is no use."""
        stuck = self.facts.stuck
        if (failure := stuck.failure(self.run)) is not None:
            return failure
        for told in (step.unreadable, stuck.repeated()):
            if told is not None:
                await self.run.log.say(told)
        return None

    async def _tell_window_use(self) -> None:
        """Tell the model when its window has filled by another step, if the plan says so."""
        plan, log = self.run.plan, self.run.log
        if plan is not None and plan.window_use:
            context = replace(log.setup.settings, window_used=log.requests.window_level)
            await log.retell(context, WindowUseState.id)

    async def abort(self) -> None:
        """Note that the turn was broken off, for the model and for the log."""
        if not self.ended:
            await self.run.log.say(TurnAborted())
            await self.run.log.turns.finish("aborted", usage=self.usage)

    async def end_at(self, reached: LimitReached) -> Outcome:
        """End the turn at a limit; what it did is kept."""
        if self.ended:
            return self.facts.outcome("completed", self.usage)
        log = self.run.log
        await tell_limit(log, reached)
        await log.turns.finish("aborted", outcome=outcome_of(reached), usage=self.usage)
        return self.facts.outcome("interrupted", self.usage, limit=reached)

    async def _wait_and_retry(self, error: ModelError) -> bool:
        """Wait for as long as it takes; return whether asking again makes sense."""
        if isinstance(error, ContextOverflow):
            # Once: a view that was compacted and still does not fit will not fit later.
            first, self.overflowed = not self.overflowed, True
            return first and await make_room(self.run, "overflow", live=True)
        if isinstance(error, InvalidRequest) and is_about_image(str(error)):
            return await leave_out_images(self.run, str(error))
        backoff = self.run.backoff
        if isinstance(error, RateLimited) and not self.run.waits_for_limits:
            return False
        delay = backoff.wait(error, self.failures)
        if delay is None:
            return False
        self.failures += 1
        self.run.emit(
            Retrying(
                attempt=self.failures,
                most=backoff.retries,
                delay=round(delay, 3),
                reason=str(error),
            )
        )
        await backoff.sleep(delay)
        return True
