"""The one thread that writes.

Owns group commit: jobs that wait are run inside one transaction and made durable
by one sync; where all of them are light, the sync comes with the next transaction, or when
there was none for a moment. Invariant: a job's caller hears of success only after the sync,
or the commit of a light job, and a job that fails takes nothing of its neighbours with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct, field

from ..core.errors import StoreClosed
from .behind import LINGER_SECONDS
from .database import translate

__all__ = ["BATCH", "Job", "Writer", "holds_nothing"]

T = TypeVar("T")
Job: TypeAlias = Callable[[sqlite3.Connection], T]

BATCH = 256
"""How many jobs may share one transaction."""


def holds_nothing(_: Any) -> None:
    """A result that holds on to nothing."""


class _Task(Struct, eq=False):
    """A job and the caller who waits for it, or has given up waiting."""

    job: Job[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    discard: Callable[[Any], None]
    light: bool
    gate: threading.Lock = field(default_factory=threading.Lock)
    result: Any = None
    error: Exception | None = None
    done: bool = False
    abandoned: bool = False

    def apply(self, connection: sqlite3.Connection) -> None:
        result = self.job(connection)
        with self.gate:
            self.result, self.done = result, True
            if self.abandoned:
                self._drop()

    def fail(self, error: Exception) -> None:
        with self.gate:
            self._drop()
            self.error = self.error or error

    def abandon(self) -> None:
        """The caller is gone; what the job holds is let go at once."""
        with self.gate:
            self.abandoned = True
            self._drop()

    def _drop(self) -> None:
        if self.done:
            self.done = False
            self.discard(self.result)


class Writer:
    """Runs jobs on a connection, in the order they came, many to a transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._open = True
        self._syncs = True
        self._waits = False
        """Something was written that the disk may not have yet."""
        self._thread = threading.Thread(target=self._work, name="treadle-writer", daemon=True)
        self._thread.start()

    async def run(
        self, job: Job[T], discard: Callable[[T], None] = holds_nothing, *, light: bool = False
    ) -> T:
        """The job's result, once it is durable; a `light` one outlives this process at once.

        A caller that is cancelled while it waits cannot know whether the job was
        done; it was done whole or not at all. `discard` is given a result that
        nobody will receive.
        """
        loop = asyncio.get_running_loop()
        task = _Task(job, loop.create_future(), loop, discard, light)
        with self._gate:
            if not self._open:
                raise StoreClosed(f"{str(self._path)!r} was closed; open the store again")
            self._tasks.put(task)
        try:
            return cast("T", await task.future)
        except asyncio.CancelledError:
            task.abandon()
            raise

    def close(self) -> None:
        """Finish every job that was accepted, then close the connection. Blocks."""
        with self._gate:
            if self._open:
                self._open = False
                self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self._commit(batch)
            _deliver(batch)
        self._sync()
        self._connection.close()

    def _next_batch(self) -> list[_Task]:
        batch: list[_Task] = []
        task = self._next()
        while task is not None:
            batch.append(task)
            if len(batch) == BATCH:
                break
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                break
        else:
            if batch:
                self._tasks.put(None)
        return batch

    def _next(self) -> _Task | None:
        """The next job, whenever it comes; what waits for the disk does so only for a moment."""
        if self._waits:
            with contextlib.suppress(queue.Empty):
                return self._tasks.get(timeout=LINGER_SECONDS)
            self._sync()
        return self._tasks.get()

    def _commit(self, batch: list[_Task]) -> None:
        light = all(task.light for task in batch)
        try:
            self._sync_commits(not light)
            self._connection.execute("BEGIN IMMEDIATE")
            for task in batch:
                self._apply(task)
            self._connection.execute("COMMIT")
            # A later commit need not have written, and so not synced: only `_sync` is sure.
            self._waits |= light
        except Exception as error:  # noqa: BLE001 — every caller of the batch must hear of it
            with contextlib.suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            for task in batch:
                task.fail(self._told(error))

    def _sync_commits(self, wanted: bool) -> None:
        """Have commits wait for the disk, or not; the next one that does covers all before it."""
        if wanted != self._syncs:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._syncs = wanted

    def _sync(self) -> None:
        """Have the disk take what commits have written without waiting for it."""
        if self._waits:
            self._waits = False
            # A disk that fails will tell whoever waits for it.
            with (
                contextlib.suppress(OSError),
                self._path.with_name(f"{self._path.name}-wal").open("rb") as log,
            ):
                os.fdatasync(log.fileno())

    def _apply(self, task: _Task) -> None:
        if task.abandoned:
            return
        self._connection.execute("SAVEPOINT job")
        try:
            task.apply(self._connection)
        except Exception as error:
            # A full disk or a broken file ends the transaction by itself.
            if not self._connection.in_transaction:
                raise
            self._connection.execute("ROLLBACK TO job")
            task.fail(self._told(error))
        self._connection.execute("RELEASE job")

    def _told(self, error: Exception) -> Exception:
        return translate(error, self._path) if isinstance(error, sqlite3.Error) else error


def _deliver(batch: list[_Task]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Task]] = defaultdict(list)
    for task in batch:
        by_loop[task.loop].append(task)
    for loop, tasks in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, tasks)
        except RuntimeError:  # the loop was closed while its tasks waited
            for task in tasks:
                task.fail(StoreClosed("the event loop ended before the answer came"))


def _resolve(tasks: list[_Task]) -> None:
    for task in tasks:
        if task.future.done():  # cancelled
            continue
        if task.error is not None:
            task.future.set_exception(task.error)
        else:
            task.future.set_result(task.result)
