"""The worker: takes turns that nobody runs, and runs them.

Owns which turns are taken, how many at once, and how the worker ends. Invariants: one turn at a
time per thread, for the lease says so; the longest waiting goes first; a turn that this worker
does not end stays open for the next one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ..core.errors import (
    ConfigError,
    LeaseLost,
    NothingToSend,
    StoreError,
    ThreadBusy,
    TreadleError,
    TurnLeft,
)
from ..core.ids import new_id
from ..harness.events import TurnCompleted
from ..store.contract import Store, ThreadInfo
from ..store.work import FindsWork, WakesWorkers, Work
from ..subagents import lineage_of
from .failed_turns import MOST_ATTEMPTS, TurnAttempts, Waiting, find_waiting, was_asked
from .news import (
    News,
    Troubled,
    TurnEnded,
    TurnFailed,
    TurnHandedBack,
    TurnTaken,
    Yielded,
)
from .unattended import answer_unattended

if TYPE_CHECKING:
    from ..thread.thread import Thread
    from .live import LiveFeed

__all__ = ["OpenThread", "Worker", "WorkerBounds"]

OpenThread: TypeAlias = Callable[[ThreadInfo], AbstractAsyncContextManager["Thread"]]
"""Opens a thread for writing, with the settings that its turns run with."""

_WINDOW = 4
"""Among so many threads for each free place, a worker chooses."""
_DIED = "whoever ran the turn died, or was cut off from the store"


class WorkerBounds(Struct, frozen=True, kw_only=True):
    """How much a worker does, and how often it looks."""

    turns: int = 4
    """Turns at once."""
    per_profile: int | None = None
    """Turns at once that ask one provider under one profile; None for no bound."""
    attempts: int = MOST_ATTEMPTS
    """How often a turn is tried whose worker died or could not run it."""
    sweep: tuple[float, float] = (1.0, 5.0)
    """Seconds between two looks, by chance, so that workers do not look all at once."""
    grace: float = 8.0
    """Seconds that a step has to end in once the worker is asked to."""


class Worker:
    """Takes turns from one store."""

    def __init__(
        self,
        store: Store,
        open_thread: OpenThread,
        *,
        bounds: WorkerBounds | None = None,
        report: Callable[[News], None] = lambda _: None,
        live: LiveFeed | None = None,
    ) -> None:
        if not isinstance(store, FindsWork):
            raise ConfigError(f"{type(store).__name__!r} cannot find work; see `FindsWork`")
        self.store, self.bounds, self.report = store, bounds or WorkerBounds(), report
        self._finds: FindsWork = store
        self._open_thread, self._live = open_thread, live
        self._attempts = TurnAttempts(store, self.bounds.attempts)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._threads: dict[str, Thread] = {}
        """The threads whose turns run."""
        self._profiles: Counter[str] = Counter()
        self._profile_of: dict[str, str] = {}
        """Of threads that had to wait for their profile."""
        self._passed: set[str] = set()
        """Agents, whose turns are those of the thread that started them."""
        self._draining = False
        self._changed = asyncio.Event()
        self.failed = 0
        """Turns that did not complete."""

    async def run(self, *, once: bool = False) -> None:
        """Take turns until `drain` or `stop`; with `once`, until nothing waits that is due."""
        try:
            while not self._draining:
                taken = await self._sweep()
                if once and not taken and not self._running:
                    break
                if not self._draining and not (once and taken):
                    await self._pause()
            await self._finish()
        finally:
            await self._leave_all()

    def drain(self) -> None:
        """Take no more turns; those under way are handed back at their next step."""
        self._draining = True
        for thread in self._threads.values():
            thread.hand_back()
        self._changed.set()

    def stop(self) -> None:
        """Hand back what is under way, now."""
        self.drain()
        for thread in self._threads.values():
            thread.hand_back(now=True)

    async def _sweep(self) -> int:
        """Take what waits, as far as there is room; return how many turns were taken."""
        self._changed.clear()
        room = self.bounds.turns - len(self._running)
        if room <= 0:
            return 0
        # So many are left out at most: agents, and those that rest or wait for their profile.
        left_out = len(self._passed) + len(self._profile_of) + self._attempts.resting
        most = _WINDOW * room + len(self._running) + left_out
        try:
            taken = await self._choose(await self._finds.waiting(limit=most), room)
        except StoreError as error:
            self.report(Troubled(error=str(error)))
            return 0
        for work in taken:
            task = asyncio.create_task(self._take(work))
            self._running[work.thread] = task
            task.add_done_callback(partial(self._forget, work.thread))
        return len(taken)

    async def _choose(self, found: list[Work], room: int) -> list[Work]:
        """Return what to take: what waits longest, and some of what waits nearly as long.

        By chance, for other workers have the same list and cannot all have the first of it.
        """
        first, rest = found[:1], found[1:]
        random.shuffle(rest)
        taken: list[Work] = []
        for work in (*first, *rest):
            if len(taken) == room:
                break
            if await self._is_due(work):
                taken.append(work)
        return taken

    async def _is_due(self, work: Work) -> bool:
        if work.thread in self._running or work.thread in self._passed:
            return False
        profile = self._profile_of.get(work.thread)
        if profile is not None and self._is_full(profile):
            return False
        return await self._attempts.is_due(work.thread)

    def _is_full(self, profile: str) -> bool:
        most = self.bounds.per_profile
        return most is not None and self._profiles[profile] >= most

    def _forget(self, thread: str, task: asyncio.Task[None]) -> None:
        del self._running[thread]
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.report(Troubled(error=f"{type(error).__name__}: {error}"))

    async def _pause(self) -> None:
        """Wait for a turn to end, for news of work, or for a while."""
        seconds = random.uniform(*self.bounds.sweep)  # noqa: S311 - spreads workers
        changed = asyncio.create_task(self._changed.wait())
        if isinstance(self.store, WakesWorkers) and len(self._running) < self.bounds.turns:
            waking = asyncio.create_task(self.store.wait_for_work(seconds))
        else:
            waking = asyncio.create_task(asyncio.sleep(seconds))
        done, left = await asyncio.wait({changed, waking}, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if waking in done and (error := waking.exception()) is not None:
            self.report(Troubled(error=str(error)))
            await asyncio.sleep(seconds)

    async def _finish(self) -> None:
        """Wait for the turns under way; after a while hand back those that do not come to it."""
        if not self._running:
            return
        await asyncio.wait(self._running.values(), timeout=self.bounds.grace)
        self.stop()
        if self._running:
            await asyncio.wait(self._running.values())

    async def _leave_all(self) -> None:
        left = list(self._running.values())
        for thread in self._threads.values():
            thread.hand_back(now=True)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def _take(self, work: Work) -> None:
        """Run the turn of a thread; whatever goes wrong is told and counted."""
        thread = work.thread
        try:
            async with self._open_thread(await self.store.info(thread)) as opened:
                await self._run_next(opened)
        except ThreadBusy as busy:
            self.report(Yielded(thread=thread, holder=busy.holder))
        except (LeaseLost, NothingToSend):
            # Somebody took the thread over, or what waited was answered a moment before.
            self.report(Yielded(thread=thread))
        except StoreError as error:
            self.report(Troubled(error=str(error)))
        except (TreadleError, OSError) as error:
            await self._count_failure(thread, str(error))
        except Exception as error:  # noqa: BLE001 - no turn may take the worker down
            await self._count_failure(thread, f"{type(error).__name__}: {error}")

    async def _run_next(self, thread: Thread) -> None:
        if lineage_of(thread.view.settings, thread.id) is not None:
            self._passed.add(thread.id)
            return
        if self._draining or (waiting := await find_waiting(self.store, thread.id)) is None:
            return
        profile = await self._profile(thread)
        if self._is_full(profile):
            self._profile_of[thread.id] = profile
            return
        self._profile_of.pop(thread.id, None)
        attempt = await self._count_taken(thread, waiting)
        if attempt > self.bounds.attempts:
            await self._give_up(thread, waiting)
            return
        self._profiles[profile] += 1
        self._threads[thread.id] = thread
        try:
            await self._run_turn(thread, waiting, attempt)
        finally:
            self._profiles[profile] -= 1
            del self._threads[thread.id]

    async def _count_taken(self, thread: Thread, waiting: Waiting) -> int:
        """Count a turn that is gone on with; return which attempt at it this is."""
        if waiting.turn is None:
            return 1
        before = int(await was_asked(self.store, thread.id, waiting.turn))
        commit = thread.log.commit
        return await self._attempts.count(commit, thread.id, waiting.key, _DIED, before=before)

    async def _profile(self, thread: Thread) -> str:
        """Return who asks the provider of a thread, as far as a bound depends on it."""
        if self.bounds.per_profile is None:
            return ""
        plan = await thread.foresee()
        return f"{thread.model.partition(':')[0]} {plan.auth.profile}"

    async def _run_turn(self, thread: Thread, waiting: Waiting, attempt: int) -> None:
        turn = waiting.turn.id if waiting.turn is not None else new_id("turn")
        self.report(TurnTaken(thread=thread.id, turn=turn, attempt=attempt))
        try:
            done = await self._follow(thread, turn)
            while done.status == "completed" and thread.subagents.working and not self._draining:
                done = await self._follow(thread, None)
        except TurnLeft:
            await self._attempts.forget(thread.log.commit, thread.id)
            self.report(TurnHandedBack(thread=thread.id, turn=turn))
            return
        self.failed += done.status != "completed"
        await self._attempts.forget(thread.log.commit, thread.id)
        self.report(
            TurnEnded(thread=thread.id, turn=done.turn, status=done.status, error=done.error)
        )

    async def _follow(self, thread: Thread, turn: str | None) -> TurnCompleted:
        """Run one turn; whoever watches from elsewhere hears what happens."""
        async with aclosing(thread.run(turn_id=turn)) as events:
            async for event in events:
                if self._live is not None:
                    self._live.publish(thread.id, event)
                if isinstance(event, TurnCompleted):
                    return event
                answer_unattended(thread, event)
        raise TurnLeft(thread.id)

    async def _count_failure(self, thread: str, why: str) -> None:
        """Count an attempt that failed before the turn could end; after the last, give it up."""
        try:
            if (waiting := await find_waiting(self.store, thread)) is None:
                self.report(TurnFailed(thread=thread, error=why, attempts=1, gave_up=False))
                return
            lease = await self.store.acquire(thread)
            try:
                commit = partial(self.store.commit, lease)
                attempts = await self._attempts.count(commit, thread, waiting.key, why)
                over = attempts >= self.bounds.attempts
                if over:
                    await self._attempts.give_up(commit, thread, waiting, why)
                    self.failed += 1
            finally:
                await lease.release()
        except TreadleError as error:
            self.report(Troubled(error=f"{why}; it could not be noted either: {error}"))
            return
        self.report(TurnFailed(thread=thread, error=why, attempts=attempts, gave_up=over))

    async def _give_up(self, thread: Thread, waiting: Waiting) -> None:
        why = await self._attempts.newest_error(thread.id)
        await self._attempts.give_up(thread.log.commit, thread.id, waiting, why)
        self.failed += 1
        most = self.bounds.attempts
        self.report(TurnFailed(thread=thread.id, error=why, attempts=most, gave_up=True))
