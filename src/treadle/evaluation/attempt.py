"""Attempts: one task, from its files to its result.

Owns the order of what happens. Invariants: each step is durable before the next begins, so that
an attempt whose process was killed goes on where it was; the model is asked nothing twice; and
whatever becomes of the agent, the tests have the last word.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..config.settings import Price
from ..core.errors import TurnLeft
from ..core.files import replace_file
from ..harness.events import TurnCompleted
from ..hosts.unattended import answer_unattended
from ..policy.limits import Limits, limit_of
from ..store.contract import ENDED_STATES, Turn
from ..transfer.exporting import export_thread
from .attempt_figures import read_figures
from .results import AttemptFigures, AttemptResult, AttemptState, HowItEnded, Sitting, Verdict
from .run_directory import AttemptPlace
from .task import Task
from .task_box import Boxes, BoxSource
from .verify import grade
from .workspace_files import box_of, prepare_files, write_patch

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["AttemptRunner", "OpenThread", "Opening"]


class Opening(Struct, frozen=True, kw_only=True):
    """What the thread of an attempt is opened with."""

    task: Task
    number: int
    place: AttemptPlace
    source: BoxSource | None
    """Where its commands run; None: in the workspace itself, in the sandbox of the thread."""
    thread: str | None
    """The thread that goes on, if it is still there; else one is made."""


OpenThread: TypeAlias = Callable[[Opening], AbstractAsyncContextManager["Thread"]]
"""Opens the thread of an attempt, with the settings that the run has."""


class _Ended(Struct, frozen=True):
    """How the turns of an attempt ended."""

    how: HowItEnded
    error: str = ""


class AttemptRunner:
    """Runs attempts; `stop` leaves those under way for a later process."""

    def __init__(
        self,
        boxes: Boxes,
        open_thread: OpenThread,
        *,
        limits: Limits,
        prices: Mapping[str, Price],
        boxed: bool = True,
    ) -> None:
        self._boxes, self._open_thread = boxes, open_thread
        self._limits, self._prices, self._boxed = limits, prices, boxed
        self._turns: set[Thread] = set()
        self._between: set[asyncio.Task[object]] = set()
        """Attempts in which no turn runs: files are made, or tests run."""
        self._stopped = False

    def stop(self) -> None:
        """Leave the turns under way; what they have done is kept."""
        self._stopped = True
        for thread in self._turns:
            thread.hand_back(now=True)
        for task in self._between:
            # Both are begun anew later.
            task.cancel()

    async def run(self, task: Task, number: int, place: AttemptPlace) -> AttemptResult:
        """Run an attempt to its end, or go on with it; its result is durable then.

        Where it was stopped, it raises `TurnLeft` or is cancelled, and can go on later.
        """
        with self._in_between():
            return await self._run(task, number, place)

    @contextmanager
    def _in_between(self) -> Iterator[None]:
        """Have the present task cancelled when everything is to stop."""
        present = asyncio.current_task()
        assert present is not None, "attempts run in tasks"
        self._between.add(present)
        try:
            yield
        finally:
            self._between.discard(present)

    @contextmanager
    def _in_turn(self, thread: Thread) -> Iterator[None]:
        """Have the turn handed back when everything is to stop, and not cancelled."""
        present = asyncio.current_task()
        assert present is not None, "attempts run in tasks"
        self._between.discard(present)
        self._turns.add(thread)
        try:
            yield
        finally:
            self._turns.discard(thread)
            self._between.add(present)

    async def _run(self, task: Task, number: int, place: AttemptPlace) -> AttemptResult:
        state = place.state()
        if not state.prepared:
            place.forget()
            await prepare_files(self._boxes, task, place)
            state = place.keep(AttemptState(prepared=True))
        ended, figures, state = await self._work(task, number, place, state)
        patch = await write_patch(self._boxes, task, place)
        verdict = await grade(self._boxes, task, place)
        result = _result(ended, figures, verdict, state, task=task.name, number=number, patch=patch)
        place.finish(result)
        return result

    async def _work(
        self, task: Task, number: int, place: AttemptPlace, state: AttemptState
    ) -> tuple[_Ended, AttemptFigures, AttemptState]:
        """Let the agent work until its turn has ended."""
        source = BoxSource(box_of(self._boxes, task, place)) if self._boxed else None
        opening = Opening(
            task=task,
            number=number,
            place=place,
            source=source,
            thread=state.thread or None,
        )
        async with self._open_thread(opening) as thread:
            closed = await _close_sittings(thread, state.sittings)
            began = Sitting(_now())
            state = replace(state, thread=thread.id, sittings=(*closed, began))
            place.keep(state)
            try:
                with self._in_turn(thread):
                    ended = await self._run_turns(thread, task.instruction, self._limits_of(task))
            finally:
                state = replace(state, sittings=(*closed, Sitting(began.began, _now())))
                place.keep(state)
            await thread.wait_for_engine(60.0)
            parts = [part async for part in export_thread(thread.store, thread.id, "atif")]
            replace_file(place.trajectory, b"".join(parts))
            return ended, await read_figures(thread, self._prices), state

    async def _run_turns(self, thread: Thread, instruction: str, limits: Limits) -> _Ended:
        """Run the turn of a task, or go on with it, and the turns that reports of agents start.

        What a host may not do (a wrong option, a store that fails) is raised; what the model or its
        provider did wrong is how the attempt ended.
        """
        newest = await thread.store.turns(thread.id, limit=1)
        if newest and newest[-1].state in ENDED_STATES and not await thread.expects():
            return _ended_before(newest[-1])
        if not newest:
            done = await self._follow(thread, limits, instruction)
        elif newest[-1].state in ENDED_STATES:
            done = await self._follow(thread, limits)
        else:
            done = await self._follow(thread, limits, turn_id=newest[-1].id)
        while done.status == "completed" and await thread.expects():
            done = await self._follow(thread, limits)
        if done.limit is not None:
            return _Ended("limit", done.limit.text)
        return _Ended(done.status, done.error or "")

    async def _follow(
        self, thread: Thread, limits: Limits, *said: str, turn_id: str | None = None
    ) -> TurnCompleted:
        async with aclosing(thread.run(*said, turn_id=turn_id, limits=limits)) as events:
            async for event in events:
                if isinstance(event, TurnCompleted):
                    return event
                if self._stopped:
                    # It may have come before there was a turn to leave.
                    thread.hand_back(now=True)
                answer_unattended(thread, event)
        raise TurnLeft(thread.id)

    def _limits_of(self, task: Task) -> Limits:
        given = self._limits.seconds
        seconds = task.agent_seconds if given is None else min(given, task.agent_seconds)
        return replace(self._limits, seconds=seconds)


def _ended_before(turn: Turn) -> _Ended:
    """Return how a turn ended whose process died before the tests were run."""
    if (limit := limit_of(turn.outcome)) is not None:
        return _Ended("limit", limit.text)
    how: dict[str, HowItEnded] = {"completed": "completed", "failed": "failed"}
    return _Ended(how.get(turn.state, "interrupted"))


async def _close_sittings(thread: Thread, known: tuple[Sitting, ...]) -> tuple[Sitting, ...]:
    """Give an end to a sitting whose process died: the time of the last thing that it did."""
    if not known or known[-1].ended is not None:
        return known
    last = (await thread.store.info(thread.id)).updated
    return (*known[:-1], replace(known[-1], ended=max(last, known[-1].began)))


def _result(
    ended: _Ended,
    figures: AttemptFigures,
    verdict: Verdict,
    state: AttemptState,
    *,
    task: str,
    number: int,
    patch: int | None,
) -> AttemptResult:
    worked = sum((each.ended or each.began) - each.began for each in state.sittings)
    return AttemptResult(
        task=task,
        attempt=number,
        thread=state.thread,
        ended=ended.how,
        error=ended.error,
        solved=verdict.reward is not None and verdict.reward >= 1.0,
        reward=verdict.reward,
        rewards=verdict.rewards,
        verifier_error=verdict.error,
        seconds=worked / 1_000,
        verifier_seconds=verdict.seconds,
        sittings=len(state.sittings),
        figures=figures,
        patch_bytes=patch,
    )


def _now() -> int:
    return time.time_ns() // 1_000_000
