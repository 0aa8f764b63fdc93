"""The schedule of a run: which attempts are left, and how many at once.

Owns the order: first every task once, then every task again. Invariants: an attempt that is over
is not begun again; one that fails for a reason of its own stops no other; and a fault that every
attempt would meet (a wrong option, a store that cannot be written) ends the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from ..core.errors import InvalidOption, StoreError, TreadleError, TurnLeft
from .attempt import AttemptRunner
from .results import AttemptResult
from .run_directory import RunDirectory, RunPlan
from .task import Task

__all__ = ["AttemptBroken", "AttemptOver", "AttemptStarted", "RunNews", "RunSchedule"]


class AttemptStarted(Struct, frozen=True, tag="attempt.started"):
    """An attempt begins, or goes on."""

    task: str
    attempt: int
    goes_on: bool


class AttemptOver(Struct, frozen=True, tag="attempt.over"):
    """An attempt is over."""

    result: AttemptResult


class AttemptBroken(Struct, frozen=True, tag="attempt.broken"):
    """An attempt has no result: something failed that is not its own; the next run tries again."""

    task: str
    attempt: int
    error: str


RunNews: TypeAlias = AttemptStarted | AttemptOver | AttemptBroken


class RunSchedule:
    """Runs what is left of a plan."""

    def __init__(
        self,
        directory: RunDirectory,
        plan: RunPlan,
        tasks: Sequence[Task],
        runner: AttemptRunner,
        *,
        at_once: int,
        report: Callable[[RunNews], None],
    ) -> None:
        self._directory, self._plan, self._runner = directory, plan, runner
        self._tasks = list(tasks)
        self._places = asyncio.Semaphore(at_once)
        self._report = report
        self._stopped = False
        self._working: set[asyncio.Task[None]] = set()
        self.broken = 0
        """Attempts that have no result."""

    @property
    def is_stopped(self) -> bool:
        """Return whether it was asked to stop."""
        return self._stopped

    def stop(self) -> None:
        """Begin nothing more, and leave what is under way to a later process."""
        self._stopped = True
        self._runner.stop()

    async def run(self) -> None:
        """Run every attempt that is not over."""
        left = [
            (task, number)
            for number in range(1, self._plan.attempts + 1)
            for task in self._tasks
            if self._directory.attempt(task.name, number).result() is None
        ]
        self._working = {asyncio.create_task(self._take(task, number)) for task, number in left}
        try:
            while self._working:
                done, self._working = await asyncio.wait(
                    self._working, return_when=asyncio.FIRST_COMPLETED
                )
                for each in done:
                    if not each.cancelled() and (error := each.exception()) is not None:
                        raise error
        finally:
            if self._working:
                self.stop()
                await asyncio.wait(self._working)

    async def _take(self, task: Task, number: int) -> None:
        async with self._places:
            if self._stopped:
                return
            place = self._directory.attempt(task.name, number)
            self._report(AttemptStarted(task.name, number, bool(place.state().thread)))
            try:
                result = await self._runner.run(task, number, place)
            except TurnLeft:
                return
            except (InvalidOption, StoreError):
                raise
            except (TreadleError, OSError) as error:
                self.broken += 1
                self._report(AttemptBroken(task.name, number, str(error)))
                return
            self._report(AttemptOver(result))
