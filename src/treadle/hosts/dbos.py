"""Turns as workflows of DBOS, for those who want its queues, schedules, limits and dashboards.

Owns one queue, one workflow and the recovery of workflows whose executor died. Invariants: the
id of a workflow is the id of its turn, so that a workflow that is run again goes on with the
turn, or only hears how it ended; one turn at a time runs per thread, for the queue is
partitioned by thread, and the lease of the thread stands behind that.

Needs the extra ``dbos``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from dbos import DBOS, DBOSConfig, Serializer, SetEnqueueOptions, SetWorkflowID

from .. import __version__
from ..core.errors import NotFound, StoreError, ThreadBusy, TurnLeft
from ..core.ids import new_id
from ..core.typed import convert
from ..harness.events import TurnCompleted
from ..store.contract import Store
from .dbos_sqlite import engine_options
from .workflow_turns import OpenById, WorkflowError, follow_turn

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["DbosTurns", "JsonSerializer", "OpenById", "WorkflowError", "run_dbos_host"]

QUEUE = "treadle.turns"
_WORKFLOW = "treadle.turn"
_TITLE = "executor of DBOS"
_BUSY_SECONDS = 0.5
_LEAVE_SECONDS = 0.02
_logger = logging.getLogger(__name__)


class JsonSerializer(Serializer):
    """Stores what DBOS keeps as JSON: nothing that is read back can run anything."""

    def name(self) -> str:
        """Return the name that stands beside each value."""
        return "treadle_json"

    def serialize(self, data: Any) -> str:
        """Return a value as JSON; an error as its text."""
        if isinstance(data, BaseException):
            data = {"error": f"{type(data).__name__}: {data}"}
            return f"!{msgspec.json.encode(data).decode()}"
        return msgspec.json.encode(data).decode()

    def deserialize(self, serialized_data: str) -> Any:
        """Return what `serialize` was given."""
        if serialized_data.startswith("!"):
            return WorkflowError(msgspec.json.decode(serialized_data[1:])["error"])
        return msgspec.json.decode(serialized_data)


class DbosTurns:
    """A queue of turns. Make it before `DBOS.launch`, and `open` it behind."""

    def __init__(self, open_thread: OpenById) -> None:
        self._open_thread = open_thread
        self._running: dict[Thread, asyncio.AbstractEventLoop] = {}
        """Threads with a turn under way; DBOS runs them in a loop of its own."""
        self._leaving = False

        @DBOS.workflow(name=_WORKFLOW)
        async def run(thread: str, turn: str, text: str) -> Any:
            return await self._run(thread, turn, text)

        self._workflow = run

    async def open(self, *, turns: int = 4, polling: float = 1.0) -> None:
        """Make the queue: one turn at a time per thread, and `turns` in each executor."""
        await DBOS.register_queue_async(
            QUEUE,
            partition_concurrency=1,
            worker_concurrency=turns,
            polling_interval_sec=polling,
            on_conflict="always_update",
        )

    async def enqueue(self, thread: str, text: str, *, turn_id: str | None = None) -> str:
        """Enqueue a turn of `thread` about `text`; return its id. The same id is run once."""
        turn = turn_id or new_id("turn")
        with SetWorkflowID(turn), SetEnqueueOptions(queue_partition_key=thread):
            await DBOS.enqueue_workflow_async(QUEUE, self._workflow, thread, turn, text)
        return turn

    async def wait(self, turn: str) -> TurnCompleted:
        """Return how a turn ended, as soon as it has. Raises what kept it from running."""
        handle: Any = await DBOS.retrieve_workflow_async(turn)
        return convert(await handle.get_result(), TurnCompleted)

    async def leave(self, grace: float = 8.0) -> None:
        """Leave turns open after their present step, at the latest after `grace` seconds.

        Call it before `DBOS.destroy()`, which would interrupt them. Whoever recovers this
        executor goes on with them.
        """
        self._leaving = True
        for now in (False, True):
            for thread, loop in list(self._running.items()):
                loop.call_soon_threadsafe(partial(thread.hand_back, now=now))
            with suppress(TimeoutError):
                async with asyncio.timeout(None if now else grace):
                    while self._running:  # noqa: ASYNC110 - another loop runs them
                        await asyncio.sleep(_LEAVE_SECONDS)

    async def _run(self, thread: str, turn: str, text: str) -> Any:
        while not self._leaving:
            try:
                async with self._open_thread(thread) as opened:
                    self._running[opened] = asyncio.get_running_loop()
                    try:
                        return msgspec.to_builtins(await follow_turn(opened, turn, text))
                    finally:
                        del self._running[opened]
            except ThreadBusy:
                # Somebody sits in front of it, or the lease of a dead one is about to end.
                await asyncio.sleep(_BUSY_SECONDS)
            except TurnLeft:
                _logger.info("turn %s is left to another executor", turn)
        # Neither an end nor an error: only a workflow that goes on is recovered elsewhere.
        return await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def run_dbos_host(
    store: Store,
    open_thread: OpenById,
    database: str,
    *,
    turns: int = 4,
    sweep: float = 1.0,
    grace: float = 8.0,
) -> AsyncIterator[DbosTurns]:
    """Run turns that are enqueued in the DBOS system database `database`, until the block ends.

    This process is an executor, and its name is the id of a thread in `store` that it holds the
    lease of: whoever can take that lease knows that the executor is dead, and has its workflows
    enqueued again. At the end turns under way are left open after their present step, at the
    latest after `grace` seconds. Those who run DBOS already make a `DbosTurns` themselves.
    """
    await _forget_dead(store)
    executor = (await store.create(title=_TITLE)).id
    lease = await store.acquire(executor)
    config: DBOSConfig = {
        "name": "treadle",
        "system_database_url": database,
        "db_engine_kwargs": engine_options(database),
        "executor_id": executor,
        "application_version": f"treadle-{__version__}",
        "serializer": JsonSerializer(),
        "log_level": "WARNING",
        "use_listen_notify": False,
    }
    DBOS(config=config)
    try:
        queued = DbosTurns(open_thread)
        await asyncio.to_thread(DBOS.launch)
        await queued.open(turns=turns, polling=min(1.0, sweep))
        sweeping = asyncio.create_task(_sweep(store, executor, sweep))
        try:
            yield queued
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            await queued.leave(grace)
    finally:
        # It has made its own threads those of this loop, and ends them; so this blocks.
        DBOS.destroy(workflow_completion_timeout_sec=0)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await lease.release()
        # Whoever has no thread is dead: others take over what this process did not end.
        with suppress(ThreadBusy):
            await store.delete(executor)


async def _sweep(store: Store, own: str, seconds: float) -> None:
    """Have the workflows of dead executors enqueued again, for ever."""
    while True:
        await asyncio.sleep(seconds)
        try:
            pending = await DBOS.list_workflows_async(status="PENDING", queue_name=QUEUE)
            for executor in {each.executor_id or own for each in pending} - {own}:
                if await _is_dead(store, executor):
                    # What its server for operators calls, too; it has no public name.
                    recover = DBOS._recover_pending_workflows  # noqa: SLF001
                    await asyncio.to_thread(recover, [executor])
        except (StoreError, OSError) as error:
            _logger.warning("dead executors could not be looked for: %s", error)


async def _forget_dead(store: Store) -> None:
    """Delete what executors left that died; their workflows are found without it."""
    for info in await store.threads():
        if info.title == _TITLE and not info.last:
            with suppress(ThreadBusy, NotFound):
                await store.delete(info.id)


async def _is_dead(store: Store, executor: str) -> bool:
    try:
        lease = await store.acquire(executor)
    except ThreadBusy:
        return False
    except NotFound:
        return True
    with suppress(StoreError):
        await lease.release()
    return True
