"""Turns as workflows of Temporal, for those who run it.

Owns the activity that is a turn, the worker that runs it and the client that asks for one.
Invariants: the id of a workflow is the id of its turn, so an activity that is tried again goes
on with the turn, or only hears how it ended; a worker that ends leaves its turns open, to the
next one; one turn at a time runs per thread, and the lease of the thread stands behind that.

Needs the extra ``temporal``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from ..core.errors import ThreadBusy, TurnLeft
from ..core.ids import new_id
from ..core.typed import convert
from ..harness.events import TurnCompleted
from .temporal_workflows import (
    ADD_TURN,
    TURN_ACTIVITY,
    AskedTurn,
    ThreadTurns,
    TurnOutcome,
    TurnWorkflow,
)
from .workflow_turns import OpenById, WorkflowError, follow_turn

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["QUEUE", "WORKFLOWS", "TemporalTurns", "run_temporal_host", "turn_activity"]

QUEUE = "treadle.turns"
WORKFLOWS = (ThreadTurns, TurnWorkflow)
"""For a worker of your own; `turn_activity` is the rest of it."""
_POLL_SECONDS = 0.2
_STICKY = timedelta(seconds=2)
"""How long the server waits for a worker that has a workflow in memory; it may be dead."""


class TemporalTurns:
    """Asks for turns, from wherever Temporal can be reached."""

    def __init__(
        self, client: Client, *, queue: str = QUEUE, heartbeat: float = 15.0, attempts: int = 5
    ) -> None:
        self._client = client
        self._queue = queue
        self._heartbeat, self._attempts = heartbeat, attempts

    async def enqueue(self, thread: str, text: str, *, turn_id: str | None = None) -> str:
        """Ask for a turn of `thread` about `text`; return its id. The same id is run once."""
        turn = turn_id or new_id("turn")
        asked = AskedTurn(thread, turn, text, self._heartbeat, self._attempts)
        await self._client.start_workflow(
            ThreadTurns.run,
            [],
            id=f"treadle.{thread}",
            task_queue=self._queue,
            start_signal=ADD_TURN,
            start_signal_args=[asked],
        )
        return turn

    async def wait(self, turn: str) -> TurnCompleted:
        """Return how a turn ended, as soon as it has. Raises what kept it from running."""
        handle = self._client.get_workflow_handle(turn)
        while True:
            try:
                return convert(await handle.result(), TurnCompleted)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                await asyncio.sleep(_POLL_SECONDS)  # those before it are running
            except WorkflowFailureError as error:
                raise WorkflowError(_innermost(error)) from error


@asynccontextmanager
async def run_temporal_host(
    client: Client,
    open_thread: OpenById,
    *,
    queue: str = QUEUE,
    turns: int = 4,
    grace: float = 8.0,
) -> AsyncIterator[TemporalTurns]:
    """Run turns that are asked for in `queue`, `turns` at once, until the block ends.

    Then those under way are left open after their present step, at the latest after `grace`
    seconds, and other workers go on with them. Those who have a worker of Temporal's already
    give it `WORKFLOWS` and a `turn_activity`.
    """
    worker = Worker(
        client,
        task_queue=queue,
        workflows=WORKFLOWS,
        activities=[turn_activity(open_thread)],
        max_concurrent_activities=turns,
        graceful_shutdown_timeout=timedelta(seconds=grace),
        sticky_queue_schedule_to_start_timeout=_STICKY,
    )
    async with worker:
        yield TemporalTurns(client, queue=queue)


def turn_activity(open_thread: OpenById) -> Callable[[AskedTurn], Awaitable[TurnOutcome]]:
    """Return the activity that runs a turn of a thread which `open_thread` opens."""

    @activity.defn(name=TURN_ACTIVITY)
    async def run_turn(asked: AskedTurn) -> TurnOutcome:
        beating = asyncio.create_task(_beat(asked.heartbeat / 3))
        try:
            async with open_thread(asked.thread) as thread:
                return await _run(thread, asked)
        except ThreadBusy:
            return TurnOutcome(busy=True)
        finally:
            beating.cancel()

    return run_turn


async def _run(thread: Thread, asked: AskedTurn) -> TurnOutcome:
    """Run the turn; leave it open where the worker ends, interrupt it where it is cancelled."""
    following = asyncio.create_task(follow_turn(thread, asked.turn, asked.text))
    ending = asyncio.create_task(_hand_back_at_the_end(thread))
    try:
        try:
            done = await asyncio.shield(following)
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            if details is None or details.cancel_requested:
                thread.interrupt()
                await asyncio.wait({following})
                raise
            thread.hand_back(now=True)
            done = await following
    except TurnLeft:
        return TurnOutcome()
    finally:
        ending.cancel()
        following.cancel()
        await asyncio.gather(ending, following, return_exceptions=True)
    return TurnOutcome(ended=msgspec.to_builtins(done))


async def _hand_back_at_the_end(thread: Thread) -> None:
    await activity.wait_for_worker_shutdown()
    thread.hand_back()


async def _beat(seconds: float) -> None:
    """Tell the server that this worker lives, and hear whether the turn was cancelled."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(seconds)


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)
