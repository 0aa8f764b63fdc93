"""The threads that work on SQLite files, away from the event loop.

Owns group commit: jobs that wait share one transaction and one sync to disk; where all of
them are light, the sync comes with the next transaction, or when there was none for a
moment. Invariants: a caller is told of success only after the sync, or after the commit of
a light job, and only while the file that was written is the one that others find; a job that
fails undoes nothing of its neighbours; readers see one snapshot each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

from msgspec import Struct, field

from ..core.errors import StoreClosed
from .database import FileIdentity, grow_wal, open_reader, sqlite_errors, translate_error

__all__ = ["BATCH", "READERS", "DelayedWrites", "Job", "LogReaders", "LogWriter", "keep_nothing"]

T = TypeVar("T")
Job: TypeAlias = Callable[[sqlite3.Connection], T]

BATCH = 256
"""How many jobs may share one transaction."""
READERS = 4
"""How many queries run at once."""
GROWS_AFTER = 16
"""After so many transactions the write-ahead log is made as long as it usually is.

A command that runs one turn has fewer.
"""
DELAY_SECONDS = 0.05
"""How long a write may wait for others or for the disk; a crash may lose what came in that time."""


def keep_nothing(_: Any) -> None:
    """Discard a result that holds no resource."""


class _Task(Struct, eq=False):
    """A job and its caller, who may have stopped waiting."""

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
                self._discard_result()

    def fail(self, error: Exception) -> None:
        with self.gate:
            self._discard_result()
            self.error = self.error or error

    def abandon(self) -> None:
        """Note that the caller is gone; discard the result."""
        with self.gate:
            self.abandoned = True
            self._discard_result()

    def _discard_result(self) -> None:
        if self.done:
            self.done = False
            self.discard(self.result)


class LogWriter:
    """Runs jobs on a connection in order, many in one transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._open = True
        self._is_syncing = True
        self._unsynced = False
        """Whether something was written that may not be on the disk yet."""
        self._commits = 0
        self._files = FileIdentity(path)
        self._thread = threading.Thread(target=self._work, name="treadle-writer", daemon=True)
        self._thread.start()

    async def run(
        self, job: Job[T], discard: Callable[[T], None] = keep_nothing, *, light: bool = False
    ) -> T:
        """Run a job and return its result once it is durable; a `light` job survives this process.

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

    def is_lost(self) -> bool:
        """Return whether the file is no longer the one that was opened."""
        return not self._files.are_there()

    def close(self) -> None:
        """Finish every accepted job, then close the connection. Blocks."""
        with self._gate:
            if self._open:
                self._open = False
                self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self._commit(batch)
            _deliver(batch)
            self._commits += 1
            if self._commits == GROWS_AFTER:
                self._grow()
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
        """Wait for the next job; sync what is not on the disk yet if none comes for a moment."""
        if self._unsynced:
            with contextlib.suppress(queue.Empty):
                return self._tasks.get(timeout=DELAY_SECONDS)
            self._sync()
        return self._tasks.get()

    def _commit(self, batch: list[_Task]) -> None:
        light = all(task.light for task in batch)
        try:
            self._files.check_earlier()
            self._sync_commits(not light)
            self._connection.execute("BEGIN IMMEDIATE")
            if len(batch) == 1:  # the transaction is all that there is to undo
                self._apply_alone(batch[0])
            else:
                for task in batch:
                    self._apply(task)
            self._connection.execute("COMMIT")
            self._files.check()
            # A later commit need not have written, and so not synced: only `_sync` is sure.
            self._unsynced |= light
        except Exception as error:  # noqa: BLE001 - every caller of the batch gets the error
            with contextlib.suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            for task in batch:
                task.fail(self._store_error(error))

    def _sync_commits(self, wanted: bool) -> None:
        """Make commits wait for the disk, or not; one that waits covers all before it."""
        if wanted != self._is_syncing:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._is_syncing = wanted

    def _sync(self) -> None:
        """Write to the disk what commits have written without waiting for it."""
        if self._unsynced:
            self._unsynced = False
            # A disk that fails raises for the next job that waits for it.
            with (
                contextlib.suppress(OSError),
                self._path.with_name(f"{self._path.name}-wal").open("rb") as log,
            ):
                os.fdatasync(log.fileno())

    def _grow(self) -> None:
        """Make room in the write-ahead log; where that fails, it grows as it is written."""
        with contextlib.suppress(sqlite3.Error):
            grow_wal(self._connection, self._path)

    def _apply_alone(self, task: _Task) -> None:
        if not task.abandoned:
            task.apply(self._connection)

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
            task.fail(self._store_error(error))
        self._connection.execute("RELEASE job")

    def _store_error(self, error: Exception) -> Exception:
        return translate_error(error, self._path) if isinstance(error, sqlite3.Error) else error


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


class LogReaders:
    """Runs queries on read-only connections, opened at first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="treadle-reader")

    async def run(self, query: Job[T]) -> T:
        """Return the result of `query`, from one snapshot."""
        loop = asyncio.get_running_loop()
        try:
            result = loop.run_in_executor(self._pool, self._run, query)
        except RuntimeError as error:  # the pool was shut down
            raise StoreClosed(f"{str(self._path)!r} was closed; open the store again") from error
        return await result

    def close(self) -> None:
        """Finish the queries under way, then close the connections. Blocks."""
        self._pool.shutdown()
        while not self._idle.empty():
            self._idle.get().close()

    def _run(self, query: Job[T]) -> T:
        connection = self._take()
        try:
            with sqlite_errors(self._path):
                connection.execute("BEGIN")
                try:
                    return query(connection)
                finally:
                    if connection.in_transaction:
                        connection.execute("COMMIT")
        finally:
            self._idle.put(connection)

    def _take(self) -> sqlite3.Connection:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return open_reader(self._path)


class DelayedWrites(Generic[T]):
    """Writes that nobody waits for: they are done together, a moment after the first one.

    Call `add` on the event loop, `take_all` from any thread. Whoever queries takes and does
    the waiting writes first, so that no query misses an earlier write.
    """

    def __init__(self, write: Callable[[], object]) -> None:
        self._write = write
        self._waiting: deque[T] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, work: T) -> None:
        """Add work that will be written soon."""
        self._waiting.append(work)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_SECONDS, self._start_write)

    def take_all(self) -> list[T]:
        """Remove and return all that waits, oldest first."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def stop(self) -> None:
        """Start no more writes; whoever closes takes what still waits."""
        if self._timer is not None:
            self._timer.cancel()

    def _start_write(self) -> None:
        self._timer = None
        if self._waiting:
            self._write()
