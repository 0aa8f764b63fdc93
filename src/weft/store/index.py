"""The index: what can be rebuilt from the log.

Owns `index.db` (ledger, calibrations, search) and its own small thread.
Invariant: it may be lost, damaged or foreign at any time; it is then moved aside
and started anew, and only a logged warning tells of it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from ..errors import NotFound, StoreClosed, StoreCorrupt, StoreFull, StoreReadOnly
from ..usage import TokenUsage
from . import cursors, requests, search
from .contract import Calibration, Hit, LedgerRow, Segment, Span, Store, ThreadInfo
from .database import (
    BUSY_SECONDS,
    closed_on_error,
    connect,
    ensure_writable,
    sqlite_errors,
    start_wal,
)

__all__ = ["MemoryIndex", "SqliteIndex"]

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

APPLICATION_ID = int.from_bytes(b"WEFI", "big")
VERSION = 1
CHUNK = 500
"""Entries that are indexed in one transaction."""

_log = logging.getLogger("weft.store")


class SqliteIndex:
    """Ledger and search in `directory`; opened at first use.

    Where the directory cannot be written, it works in memory instead.
    """

    def __init__(self, store: Store, directory: Path | None) -> None:
        self._store = store
        self._path = None if directory is None else directory / "index.db"
        self._connection: sqlite3.Connection | None = None
        self._built = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="weft-index")

    async def record(self, row: LedgerRow, segments: Sequence[Segment]) -> None:
        """Keep one request; `segments` are those from `row.shared_segments` on."""
        await self._change(
            lambda db: requests.keep_request(db, cursors.number_for(db, row.thread), row, segments)
        )

    async def report(self, thread: str, seq: int, usage: TokenUsage) -> None:
        """Note what the provider said of the request at `seq`."""
        await self._change(
            lambda db: requests.note_usage(db, cursors.number_for(db, thread), seq, usage)
        )

    async def rows(self, thread: str) -> list[LedgerRow]:
        """The requests of a thread, oldest first."""
        return await self._ask(
            lambda db: requests.requests_of(db, cursors.number_of(db, thread), thread)
        )

    async def last(self, thread: str) -> tuple[LedgerRow, list[Segment]] | None:
        """The newest request of a thread with all of its segments."""
        return await self._ask(
            lambda db: requests.newest_request(db, cursors.number_of(db, thread), thread)
        )

    async def calibration(self, model: str) -> Calibration:
        """What was learnt about a model's tokens."""
        return await self._ask(lambda db: requests.find_calibration(db, model))

    async def calibrate(self, model: str, calibration: Calibration) -> None:
        """Keep what was learnt."""
        await self._change(lambda db: requests.keep_calibration(db, model, calibration))

    async def search(self, query: str, *, thread: str | None = None, limit: int = 20) -> list[Hit]:
        """Entries that contain the words of `query`, best first. Indexes what is new first.

        Within a thread its shared prefix counts as its own. Elsewhere a hit names
        the thread that wrote the entry, or one that still shares it.
        """
        # A file that turns out to be broken on the way starts anew, and empty.
        built = -1
        while built != self._built:
            built = self._built
            hits = await (
                self._search_everywhere(query, limit)
                if thread is None
                else self._search_thread(query, thread, limit)
            )
        return hits

    async def _search_everywhere(self, query: str, limit: int) -> list[Hit]:
        known = await self._ask(cursors.everything)
        living = await self._store.threads()
        keepers = await self._drop_unreachable(known, living)
        await self._catch_up(living)
        found = await self._ask(lambda db: cursors.find(db, query, None, limit))
        return [_under_keeper(hit, keepers) for hit in found]

    async def _search_thread(self, query: str, thread: str, limit: int) -> list[Hit]:
        await self._catch_up([await self._store.info(thread)])
        spans = await self._store.lineage(thread)
        found = await self._ask(lambda db: cursors.find(db, query, spans, limit))
        return [Hit(thread, hit.seq, hit.score, hit.snippet) for hit in found]

    async def _drop_unreachable(
        self, known: dict[str, int], living: Sequence[ThreadInfo]
    ) -> list[tuple[Span, str]]:
        """Forget what was deleted; the spans that live on in forks, each with such a fork."""
        dead = known.keys() - {info.id for info in living}
        if not dead:
            return []
        keepers = [
            (span, info.id)
            for info in living
            if info.parent is not None
            for span in await self._store.lineage(info.id)
            if span.thread in dead
        ]
        kept = {span.thread: span.last for span, _ in sorted(keepers, key=lambda k: k[0].last)}
        for thread in dead:
            if known[thread] > kept.get(thread, -1):
                await self.forget(thread)
        return keepers

    async def _catch_up(self, threads: Sequence[ThreadInfo]) -> None:
        known = await self._ask(cursors.completed)
        for info in threads:
            if known.get(info.id, -1) >= info.last:
                continue
            try:
                for span in await self._store.lineage(info.id):
                    await self._index(info.id, span)
            except NotFound:  # deleted while we read it
                continue
            await self._change(partial(cursors.note_complete, info=info))

    async def _index(self, thread: str, span: Span) -> None:
        upto = await self._ask(lambda db: cursors.upto(db, span.thread))
        for first in range(max(span.first, upto + 1), span.last + 1, CHUNK):
            last = min(first + CHUNK - 1, span.last)
            entries = await self._store.read(thread, first, last)
            await self._change(
                partial(cursors.add_entries, thread=span.thread, entries=entries, last=last)
            )

    async def forget(self, thread: str | None = None) -> None:
        """Drop what is known of a thread, or everything."""
        await self._change(lambda db: cursors.forget(db, thread))

    async def close(self) -> None:
        """Let go of the file."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._pool.shutdown()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _ask(self, job: Job[T]) -> T:
        return await self._run("BEGIN", job)

    async def _change(self, job: Job[T]) -> T:
        return await self._run("BEGIN IMMEDIATE", job)

    async def _run(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"], job: Job[T]) -> T:
        try:
            answer = asyncio.get_running_loop().run_in_executor(
                self._pool, self._attempt, begin, job
            )
        except RuntimeError as error:  # the pool was shut down
            raise StoreClosed("the index was closed; open it again") from error
        return await answer

    def _attempt(self, begin: str, job: Job[T]) -> T:
        try:
            return self._transact(begin, job)
        except StoreCorrupt as error:
            self._move_aside(str(error))
            return self._transact(begin, job)

    def _transact(self, begin: str, job: Job[T]) -> T:
        if self._connection is None:
            self._connection = self._open()
        connection = self._connection
        with sqlite_errors(self._path or Path("index.db")):
            connection.execute(begin)
            try:
                result = job(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return result

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            return _started(memory, None)
        try:
            ensure_writable(self._path)
            with sqlite_errors(self._path):
                return _started(connect(self._path, "mode=rwc"), self._path)
        except (StoreReadOnly, StoreFull) as error:
            _log.info("the index is kept in memory: %s", error)
            self._path = None
            return self._open()

    def _move_aside(self, why: str) -> None:
        self._built += 1
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._path is None:
            return
        suffix = f"broken-{int(time.time())}"
        for ending in ("", "-wal", "-shm"):
            file = self._path.with_name(f"{self._path.name}{ending}")
            if file.exists():
                file.replace(file.with_name(f"{file.name}.{suffix}"))
        _log.warning(
            "%s was moved to %s.%s and is built anew: %s", self._path, self._path.name, suffix, why
        )


class MemoryIndex(SqliteIndex):
    """Ledger and search that live as long as this object."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, None)


def _started(connection: sqlite3.Connection, path: Path | None) -> sqlite3.Connection:
    """The connection, with our tables in it."""
    with closed_on_error(connection):
        if not _is_ours(connection) and path is not None:
            start_wal(connection, path, BUSY_SECONDS)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("BEGIN IMMEDIATE")
        if not _is_ours(connection):
            _create(connection)
        connection.execute("COMMIT")
    return connection


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Whether it holds our tables; raises for a file that holds something else."""
    if connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
        return False
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (APPLICATION_ID, VERSION):
        raise StoreCorrupt("it is no index of this version")
    return True


def _create(connection: sqlite3.Connection) -> None:
    for statement in (*cursors.TABLES, *requests.TABLES, *search.TABLES):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _under_keeper(hit: Hit, keepers: Sequence[tuple[Span, str]]) -> Hit:
    """The hit under a thread that can be opened."""
    for span, keeper in keepers:
        if span.thread == hit.thread and span.first <= hit.seq <= span.last:
            return Hit(keeper, hit.seq, hit.score, hit.snippet)
    return hit
