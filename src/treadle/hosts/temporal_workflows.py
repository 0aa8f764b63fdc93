"""The workflows of Temporal that turns are: one for each turn, and one for each thread.

Owns in which order turns run, and what is tried again. Invariants: they are deterministic, and
know nothing of Treadle but names: what a turn is happens in an activity; of one thread one turn
runs at a time, in the order in which they were asked for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError

__all__ = ["ADD_TURN", "TURN_ACTIVITY", "AskedTurn", "ThreadTurns", "TurnOutcome", "TurnWorkflow"]

TURN_ACTIVITY = "treadle.run_turn"
ADD_TURN = "turn"
_LONGEST = timedelta(days=1)
"""How long an activity may run: that a worker has died is seen by its heartbeats long before."""
_BUSY_SECONDS = (0.5, 30.0)
"""How long to wait, first and at most, for a thread that somebody else writes."""


@dataclass(frozen=True)
class AskedTurn:
    """A turn that somebody wants, and how the workers are to be watched meanwhile."""

    thread: str
    turn: str
    text: str
    heartbeat: float
    """Seconds without a heartbeat after which a worker counts as dead."""
    attempts: int


@dataclass(frozen=True)
class TurnOutcome:
    """What came of an attempt: the end of the turn, or nothing where another has to be made."""

    ended: dict[str, Any] | None = None
    busy: bool = False
    """Somebody else writes the thread; without it the worker ended, and left the turn open."""


@workflow.defn(name="treadle.turn", sandboxed=False)
class TurnWorkflow:
    """One turn, under its own id."""

    @workflow.run
    async def run(self, asked: AskedTurn) -> dict[str, Any]:
        """Have the turn run until it has ended, on one worker after the other."""
        pause, longest = _BUSY_SECONDS
        while True:
            outcome: TurnOutcome = await workflow.execute_activity(
                TURN_ACTIVITY,
                asked,
                result_type=TurnOutcome,
                start_to_close_timeout=_LONGEST,
                heartbeat_timeout=timedelta(seconds=asked.heartbeat),
                retry_policy=RetryPolicy(maximum_attempts=asked.attempts),
                # Whoever cancels it knows then that the turn has ended.
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            if outcome.ended is not None:
                return outcome.ended
            if outcome.busy:
                await workflow.sleep(pause)
                pause = min(longest, pause * 2)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(asked)


@workflow.defn(name="treadle.thread", sandboxed=False)
class ThreadTurns:
    """The turns of one thread, one after the other; it ends when none is waiting."""

    def __init__(self) -> None:
        self._waiting: deque[AskedTurn] = deque()

    @workflow.signal(name=ADD_TURN)
    def add(self, asked: AskedTurn) -> None:
        """Take a turn into the line."""
        self._waiting.append(asked)

    @workflow.run
    async def run(self, waiting: list[AskedTurn]) -> None:
        """Run what waits. The workflow was started by a signal, so there is something."""
        self._waiting.extendleft(reversed(waiting))
        await workflow.wait_condition(lambda: bool(self._waiting))
        while self._waiting:
            await self._run_first()
            if self._waiting and workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new([*self._waiting])

    async def _run_first(self) -> None:
        asked = self._waiting.popleft()
        try:
            await workflow.execute_child_workflow(
                TurnWorkflow.run,
                asked,
                id=asked.turn,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )
        except (ChildWorkflowError, WorkflowAlreadyStartedError) as error:
            # Who waits for the turn is told by its own workflow; it may have been asked for twice.
            workflow.logger.info("turn %s: %s", asked.turn, error)
