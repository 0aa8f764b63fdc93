"""The index: what can be rebuilt from the log.

Owns `index.db` (ledger, calibrations, search) and its own small thread. Nobody waits
for what is noted here. Invariant: it may be lost, damaged or foreign at any time; it is
then moved aside and started anew, and only a logged warning tells of it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from ..core.errors import StoreClosed, StoreCorrupt, StoreFull, StoreReadOnly
from ..core.usage import TokenUsage
from . import cursors, requests
from .behind import Behind
from .contract import Calibration, Hits, LedgerRow, Progress, Search, Segment, Store
from .database import (
    BUSY_SECONDS,
    closed_on_error,
    connect,
    ensure_writable,
    sqlite_errors,
    start_wal,
)

if TYPE_CHECKING:
    from .searching import Searching

__all__ = ["MemoryIndex", "SqliteIndex"]

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

APPLICATION_ID = 0x57454649
VERSION = 2
CACHE_KILOBYTES = 16_384

_CLOSED = "the index was closed; open it again"
_log = logging.getLogger("treadle.store")


class SqliteIndex:
    """Ledger and search in `directory`; opened at first use.

    Where the directory cannot be written, it works in memory instead.
    """

    def __init__(self, store: Store, directory: Path | None) -> None:
        self._store = store
        self._path = None if directory is None else directory / "index.db"
        self._connection: sqlite3.Connection | None = None
        self._built = 0
        self._searching: Searching | None = None
        self._closed = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="treadle-index")
        self._behind: Behind[Job[None]] = Behind(lambda: self._pool.submit(self._note_all))

    async def record(self, row: LedgerRow, segments: Sequence[Segment]) -> None:
        """Keep one request; `segments` are those from `row.shared_segments` on."""
        self._note(
            lambda db: requests.keep_request(db, cursors.number_for(db, row.thread), row, segments)
        )

    async def report(self, thread: str, seq: int, usage: TokenUsage) -> None:
        """Note what the provider said of the request at `seq`."""
        self._note(lambda db: requests.note_usage(db, cursors.number_for(db, thread), seq, usage))

    async def rows(self, thread: str) -> list[LedgerRow]:
        """The requests of a thread, oldest first."""
        return await self._ask(
            lambda db: requests.requests_of(db, cursors.number_of(db, thread), thread)
        )

    async def newest(self, thread: str) -> LedgerRow | None:
        """The newest request of a thread."""
        return await self._ask(
            lambda db: requests.newest_row(db, cursors.number_of(db, thread), thread)
        )

    async def last(self, thread: str) -> tuple[LedgerRow, list[Segment]] | None:
        """The newest request of a thread with all of its segments."""
        return await self._ask(
            lambda db: requests.newest_request(db, cursors.number_of(db, thread), thread)
        )

    async def calibration(self, model: str) -> Calibration:
        """What was learnt about a model's tokens."""
        return await self._ask(lambda db: requests.find_calibration(db, model))

    async def calibrate(self, model: str, learn: Callable[[Calibration], Calibration]) -> None:
        """Keep what `learn` makes of what was learnt before."""
        self._note(lambda db: requests.change_calibration(db, model, learn))

    async def search(
        self,
        query: Search | str,
        *,
        thread: str | None = None,
        limit: int = 20,
        catch_up: bool = True,
    ) -> Hits:
        """Entries that hold what `query` asks for, in the order that its mode says.

        Within threads their shared prefix counts as their own. Elsewhere a hit names
        the thread that wrote the entry, or one that still shares it.
        """
        if isinstance(query, str):
            query = Search(query, limit=limit)
        if thread is not None:
            query = msgspec.structs.replace(query, threads=(thread,))
        # A file that turns out to be broken on the way starts anew, and empty.
        built = -1
        while built != self._built:
            built = self._built
            hits = await self._search_engine().search(query, catch_up=catch_up)
        return hits

    async def catch_up(
        self, threads: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> None:
        """Index all that is new in these threads, or everywhere."""
        await self._search_engine().catch_up(threads, progress)

    def _search_engine(self) -> Searching:
        # Most who record requests never search.
        from .searching import Searching

        if self._searching is None:
            self._searching = Searching(self._ask, self._change, self._store)
        return self._searching

    async def forget(self, thread: str | None = None) -> None:
        """Drop what is known of a thread, or everything."""
        await self._change(lambda db: cursors.forget(db, thread))

    async def close(self) -> None:
        """Let go of the file."""
        self._closed = True
        self._behind.stop()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with suppress(RuntimeError):  # it was closed before
            self._pool.submit(self._note_all)
        self._pool.shutdown()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _note(self, job: Job[None]) -> None:
        if self._closed:
            raise StoreClosed(_CLOSED)
        self._behind.add(job)

    def _note_all(self) -> None:
        """Write what was noted, in one transaction; what fails is lost, and can be rebuilt."""
        if not (notes := self._behind.taken()):
            return

        def write(connection: sqlite3.Connection) -> None:
            for note in notes:
                note(connection)

        try:
            self._attempt("BEGIN IMMEDIATE", write)
        except Exception as error:  # noqa: BLE001 - nobody waits who could be told
            _log.warning("the ledger misses a moment (treadle cache --rebuild mends it): %s", error)

    async def _ask(self, job: Job[T]) -> T:
        return await self._run("BEGIN", job)

    async def _change(self, job: Job[T]) -> T:
        return await self._run("BEGIN IMMEDIATE", job)

    async def _run(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"], job: Job[T]) -> T:
        try:
            answer = asyncio.get_running_loop().run_in_executor(
                self._pool, self._answer, begin, job
            )
        except RuntimeError as error:  # the pool was shut down
            raise StoreClosed(_CLOSED) from error
        return await answer

    def _answer(self, begin: str, job: Job[T]) -> T:
        self._note_all()
        return self._attempt(begin, job)

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
        connection.execute(f"PRAGMA cache_size = -{CACHE_KILOBYTES}")
        if not _is_ours(connection):
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
    from .finding import tables

    for statement in (*cursors.TABLES, *requests.TABLES, *tables.TABLES):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
