"""The index: what can be rebuilt from the log.

Owns `index.db` (ledger, search) and the one thread that works on it. Nobody
waits for what the ledger records. Invariant: the file may be lost, damaged or foreign at any
time; it is then moved aside and built again, and only a logged warning says so.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from zlib import crc32

import msgspec

from ..core.errors import StoreClosed, StoreCorrupt, StoreFull, StoreReadOnly
from ..core.usage import TokenUsage
from ..core.wire import json_bytes
from . import index_tables, usage_tables
from .contract import Hits, LedgerRow, Progress, Search, Segment, Store
from .counted_usage import Counted, RequestUsage
from .database import (
    BUSY_SECONDS,
    close_on_error,
    connect,
    ensure_writable,
    sqlite_errors,
    start_wal,
)
from .ledger_queries import LedgerQueries
from .workers import DelayedWrites, Job

if TYPE_CHECKING:
    from .search.coverage import IndexCoverage
    from .search.searcher import Searcher

__all__ = [
    "APPLICATION_ID",
    "OLDER",
    "SCHEMA",
    "VERSION",
    "MemoryIndex",
    "SqliteIndex",
    "create_tables",
    "schema_checksum",
]

T = TypeVar("T")

APPLICATION_ID = 0x57454649
VERSION = 4
SCHEMA = 0x1630140D
"""The checksum of the tables of this version."""
OLDER = {2: 0xE6128E63, 3: 0xB8DF2649}
"""Versions that only lack tables, and their checksums: the first of what answers used, too."""
CACHE_KILOBYTES = 16_384

_CLOSED = "the index was closed; open it again"
_log = logging.getLogger("treadle.store")


class SqliteIndex(LedgerQueries):
    """Ledger and search in `directory`; opened at first use.

    Where the directory cannot be written, it works in memory instead.
    """

    def __init__(self, store: Store, directory: Path | None) -> None:
        self._store = store
        self._path = None if directory is None else directory / "index.db"
        self._connection: sqlite3.Connection | None = None
        self._rebuilds = 0
        self._searcher: Searcher | None = None
        self._closed = False
        self._indexing: asyncio.Task[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="treadle-index")
        self._delayed: DelayedWrites[Job[None]] = DelayedWrites(
            lambda: self._pool.submit(self._write_delayed)
        )

    async def record(self, row: LedgerRow, segments: Sequence[Segment]) -> None:
        """Record one request; `segments` are those from `row.shared_segments` on."""

        def save(db: sqlite3.Connection) -> None:
            number = index_tables.ensure_thread_number(db, row.thread)
            index_tables.save_request(db, number, row, segments)

        self._write_later(save)

    async def record_usage(self, thread: str, seq: int, usage: TokenUsage) -> None:
        """Record what the provider reported of the request at `seq`."""

        def save(db: sqlite3.Connection) -> None:
            number = index_tables.ensure_thread_number(db, thread)
            index_tables.save_usage(db, number, seq, usage)

        self._write_later(save)

    async def usage_progress(self) -> dict[str, Counted]:
        """Return how far the answers of each thread are counted."""
        return await self._read(usage_tables.counted_threads)

    async def add_usages(
        self, thread: str, after: int, rows: Sequence[RequestUsage], now: Counted
    ) -> None:
        """Keep the answers of `thread` after the entry `after`, if it is counted up to there."""
        await self._write(lambda db: usage_tables.add_usages(db, thread, after, rows, now))

    async def usages(
        self, *, since: int = 0, until: int | None = None, threads: Sequence[str] | None = None
    ) -> list[RequestUsage]:
        """Return the answers from `since` to before `until`, the oldest first."""
        return await self._read(lambda db: usage_tables.find_usages(db, since, until, threads))

    async def forget_usages(self, thread: str) -> None:
        """Delete what is known of a thread's answers."""

        def forget(db: sqlite3.Connection) -> None:
            usage_tables.forget_usages(db, index_tables.find_thread_number(db, thread))

        await self._write(forget)

    async def search(
        self,
        query: Search | str,
        *,
        thread: str | None = None,
        limit: int = 20,
        catch_up: bool = True,
    ) -> Hits:
        """Find the entries that `query` asks for, in the order of its mode.

        Within threads their shared prefix counts as their own. Elsewhere a hit names
        the thread that wrote the entry, or one that still shares it.
        """
        if isinstance(query, str):
            query = Search(query, limit=limit)
        if thread is not None:
            query = msgspec.structs.replace(query, threads=(thread,))
        # A file that turns out to be damaged meanwhile is built again, and starts empty.
        rebuilds = -1
        while rebuilds != self._rebuilds:
            rebuilds = self._rebuilds
            hits = await self._get_searcher().search(query, catch_up=catch_up)
        return hits

    async def catch_up(
        self, threads: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> None:
        """Index all that is new in these threads, or everywhere."""
        await self._get_searcher().catch_up(threads, progress)

    async def build_vectors(self, *, progress: Progress | None = None) -> None:
        """Give vectors to what is indexed and has none; the extra `semantic` makes them."""
        from .search.vector_builder import VectorBuilder

        await VectorBuilder(self._read, self._write, self._store).build(progress=progress)

    async def coverage(self) -> IndexCoverage:
        """Return how much of the living threads is indexed."""
        from .search.coverage import measure_coverage

        return await measure_coverage(self._store, self._read)

    def begin_indexing(self, home: Path, address: str | None = None, *, after: float = 5) -> None:
        """Index from then on what `home` has not indexed yet, in a process of its own."""
        if self._indexing is None and self._path is not None and sys.executable:
            beside = self._index_beside(home, address, after)
            self._indexing = asyncio.create_task(beside, name="treadle-indexing")

    async def _index_beside(self, home: Path, address: str | None, after: float) -> None:
        await asyncio.sleep(after)
        from .search.background import BackgroundIndexing, IndexingOrder

        order = IndexingOrder(str(home), address)
        await BackgroundIndexing(self._store, self._read, order).run()

    def _get_searcher(self) -> Searcher:
        # Most who record requests never search.
        from .search.searcher import Searcher

        if self._searcher is None:
            self._searcher = Searcher(self._read, self._write, self._store)
        return self._searcher

    async def forget(self, thread: str | None = None) -> None:
        """Delete what is known of a thread, or everything."""
        from .search.tables import forget_thread

        await self._write(lambda db: forget_thread(db, thread))

    async def close(self) -> None:
        """Close the file."""
        self._closed = True
        if self._indexing is not None:
            self._indexing.cancel()
            await asyncio.wait({self._indexing})
        self._delayed.stop()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with suppress(RuntimeError):  # it was closed before
            self._pool.submit(self._write_delayed)
        self._pool.shutdown()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write_later(self, job: Job[None]) -> None:
        if self._closed:
            raise StoreClosed(_CLOSED)
        self._delayed.add(job)

    def _write_delayed(self) -> None:
        """Do the delayed writes in one transaction; what fails is lost, and can be rebuilt."""
        if not (jobs := self._delayed.take_all()):
            return

        def write(connection: sqlite3.Connection) -> None:
            for job in jobs:
                job(connection)

        try:
            self._run_job("BEGIN IMMEDIATE", write)
        except Exception as error:  # noqa: BLE001 - no caller waits for it
            _log.warning("the ledger misses a moment (treadle cache --rebuild mends it): %s", error)

    async def _read(self, job: Job[T]) -> T:
        return await self._run("BEGIN", job)

    async def _write(self, job: Job[T]) -> T:
        return await self._run("BEGIN IMMEDIATE", job)

    async def _run(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"], job: Job[T]) -> T:
        def run() -> T:
            self._write_delayed()
            return self._run_job(begin, job)

        try:
            result = asyncio.get_running_loop().run_in_executor(self._pool, run)
        except RuntimeError as error:  # the pool was shut down
            raise StoreClosed(_CLOSED) from error
        return await result

    def _run_job(self, begin: str, job: Job[T]) -> T:
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
            return _prepare(memory, None)
        try:
            ensure_writable(self._path)
            with sqlite_errors(self._path):
                return _prepare(connect(self._path, "mode=rwc"), self._path)
        except (StoreReadOnly, StoreFull) as error:
            _log.info("the index is kept in memory: %s", error)
            self._path = None
            return self._open()

    def _move_aside(self, why: str) -> None:
        self._rebuilds += 1
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


def _prepare(connection: sqlite3.Connection, path: Path | None) -> sqlite3.Connection:
    """Return the connection, with our tables in it."""
    with close_on_error(connection):
        if not _is_ours(connection) and path is not None:
            start_wal(connection, path, BUSY_SECONDS)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KILOBYTES}")
        if not _is_ours(connection):
            connection.execute("BEGIN IMMEDIATE")
            if not _is_ours(connection):
                create_tables(connection)
            connection.execute("COMMIT")
    return connection


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Return whether the file holds our tables; raise if it holds something else."""
    if connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
        return False
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID and version in OLDER:
        return _gains_tables(connection, version)
    if (application, version) != (APPLICATION_ID, VERSION):
        raise StoreCorrupt("it is no index of this version")
    if schema_checksum(connection) != SCHEMA:
        raise StoreCorrupt("its tables are not those of this version")
    return True


def _gains_tables(connection: sqlite3.Connection, older: int) -> bool:
    """Add the tables that an older version lacks, so that its ledger and search stay."""
    if schema_checksum(connection) != OLDER[older]:
        raise StoreCorrupt("its tables are not those of its version")
    from .search import vectors

    lacking = (*(usage_tables.TABLES if older < 3 else ()), *vectors.TABLES)
    try:
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == older:
            for statement in lacking:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return True


def schema_checksum(connection: sqlite3.Connection) -> int:
    """Return a checksum of how all tables were declared: a flipped bit may be among them.

    Those in which SQLite counts rows for its plans come and go.
    """
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL "
        "AND name NOT GLOB 'sqlite_stat*' ORDER BY name"
    )
    return crc32(json_bytes(rows.fetchall()))


def create_tables(connection: sqlite3.Connection) -> None:
    """Create all tables of this version in an empty database."""
    from .search import tables, vectors

    made = (index_tables, tables, usage_tables, vectors)
    for statement in chain.from_iterable(each.TABLES for each in made):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
