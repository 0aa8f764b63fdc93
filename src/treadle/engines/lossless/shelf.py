"""The shelf: one SQLite file on one thread.

Owns how ``lossless.db`` is opened, laid out and used. Invariants: the event loop never
waits for the disk, a change is applied whole or not at all, and however many shelves of
a process stand for one file, they share one connection and one thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import TypeAlias, TypeVar

from ...core.errors import StoreClosed, StoreCorrupt, StoreTooNew, TreadleError
from ...store.database import (
    BUSY_SECONDS,
    closed_on_error,
    connect,
    ensure_writable,
    sqlite_errors,
    start_wal,
)

__all__ = ["Shelf"]

T = TypeVar("T")
_Job: TypeAlias = Callable[[sqlite3.Connection], T]

APPLICATION_ID = 0x5745464E
VERSION = 1

_TABLES = (
    """
    CREATE TABLE nodes (
      id       TEXT PRIMARY KEY,
      key      TEXT NOT NULL,
      thread   TEXT NOT NULL,
      first    INTEGER NOT NULL,
      last     INTEGER NOT NULL,
      depth    INTEGER NOT NULL,
      tokens   INTEGER NOT NULL,
      degraded INTEGER NOT NULL,
      node     BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX nodes_by_key ON nodes (key)",
    "CREATE INDEX nodes_by_thread ON nodes (thread, first)",
    """
    CREATE TABLE jobs (
      key      TEXT NOT NULL,
      thread   TEXT NOT NULL,
      first    INTEGER NOT NULL,
      last     INTEGER NOT NULL,
      depth    INTEGER NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0,
      owner    TEXT,
      until    INTEGER NOT NULL DEFAULT 0,
      after    INTEGER NOT NULL DEFAULT 0,
      error    TEXT,
      created  INTEGER NOT NULL,
      PRIMARY KEY (thread, key)
    ) STRICT
    """,
    """
    CREATE TABLE turns (
      key    TEXT PRIMARY KEY,
      thread TEXT NOT NULL,
      number INTEGER NOT NULL,
      first  INTEGER NOT NULL,
      last   INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX turns_by_thread ON turns (thread, number)",
    """
    CREATE TABLE notes (
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      thread TEXT NOT NULL,
      name   TEXT NOT NULL,
      text   TEXT NOT NULL,
      time   INTEGER NOT NULL,
      UNIQUE (thread, name)
    ) STRICT
    """,
    """
    CREATE TABLE told (
      thread TEXT NOT NULL,
      prefix TEXT NOT NULL,
      text   TEXT NOT NULL,
      PRIMARY KEY (thread, prefix)
    ) STRICT
    """,
)


class _Keeper:
    """The connection to a file, and the thread on which it is used.

    What reads and changes is called on that thread.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.shelves = 0
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="treadle-lossless")
        self._connection: sqlite3.Connection | None = None

    def read(self, job: _Job[T]) -> T:
        """What a job reads; a file is there only once something was changed."""
        if self._connection is None and self.path is not None and not self.path.exists():
            with closing(_in_memory()) as nothing:
                return job(nothing)
        return self._transact("BEGIN", job)

    def open(self) -> None:
        """Open the file, if there is one; whoever asks first hears what is wrong with it."""
        with suppress(TreadleError):
            self.read(lambda _: None)

    def change(self, job: _Job[T]) -> T:
        """What a job did, durable."""
        return self._transact("BEGIN IMMEDIATE", job)

    def _transact(self, begin: str, job: _Job[T]) -> T:
        """Run a job as one transaction."""
        with sqlite_errors(self.path or Path("lossless.db")):
            if self._connection is None:
                self._connection = self._open()
            connection = self._connection
            connection.execute(begin)
            try:
                result = job(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        return result

    def close(self) -> None:
        """Finish what was accepted, then let go of the file."""
        self.pool.shutdown()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            return _in_memory()
        ensure_writable(self.path)
        connection = connect(self.path, "mode=rwc")
        with closed_on_error(connection):
            _check(connection, self.path)
            start_wal(connection, self.path, BUSY_SECONDS)
            return _laid_out(connection)


_keepers: dict[Path, _Keeper] = {}
_keeping = Lock()


def _kept(path: Path | None) -> _Keeper:
    """The keeper of a file; a place in memory is nobody else's."""
    if path is None:
        return _Keeper(None)
    with _keeping:
        keeper = _keepers.setdefault(path.absolute(), _Keeper(path))
        keeper.shelves += 1
    return keeper


def _let_go(keeper: _Keeper) -> None:
    """Close a file that no shelf stands for any more."""
    if keeper.path is not None:
        with _keeping:
            keeper.shelves -= 1
            if keeper.shelves:
                return
            del _keepers[keeper.path.absolute()]
    keeper.close()


class Shelf:
    """A file, or memory where there is no place for one; opened at first use."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._keeper: _Keeper | None = None
        self._closed = False

    def open_soon(self) -> None:
        """Have the file opened while others work."""
        keeper = self._kept()
        keeper.pool.submit(keeper.open)

    async def ask(self, job: _Job[T]) -> T:
        """What `job` reads."""
        return await self._run(_Keeper.read, job)

    async def change(self, job: _Job[T]) -> T:
        """What `job` did, durable."""
        return await self._run(_Keeper.change, job)

    async def close(self) -> None:
        """Let go of the file. Harmless when called twice."""
        keeper, self._keeper, self._closed = self._keeper, None, True
        if keeper is not None:
            await asyncio.to_thread(_let_go, keeper)

    async def _run(self, use: Callable[[_Keeper, _Job[T]], T], job: _Job[T]) -> T:
        keeper, loop = self._kept(), asyncio.get_running_loop()
        return await loop.run_in_executor(keeper.pool, use, keeper, job)

    def _kept(self) -> _Keeper:
        if self._closed:
            raise StoreClosed("the library of summaries was closed; open it again")
        if self._keeper is None:
            self._keeper = _kept(self.path)
        return self._keeper


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version > VERSION:
        raise StoreTooNew(f"{str(path)!r} was written by a newer Treadle; upgrade, or move it away")
    if version and application != APPLICATION_ID:
        raise StoreCorrupt(f"{str(path)!r} is no library of summaries; move it away")


def _in_memory() -> sqlite3.Connection:
    return _laid_out(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))


def _laid_out(connection: sqlite3.Connection) -> sqlite3.Connection:
    # What a power cut may lose here can be made again from the log.
    connection.execute("PRAGMA synchronous = NORMAL")
    if _is_laid_out(connection):
        return connection
    connection.execute("BEGIN IMMEDIATE")
    if not _is_laid_out(connection):
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
    return connection


def _is_laid_out(connection: sqlite3.Connection) -> bool:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return bool(version)
