"""Use one SQLite file on one thread.

Owns how ``lossless.db`` is opened, created and used. Invariants: the event loop never
waits for the disk; a write is applied completely or not at all; all users of a file in
one process share one connection and one thread.
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
    close_on_error,
    connect,
    ensure_writable,
    sqlite_errors,
    start_wal,
)

__all__ = ["APPLICATION_ID", "VERSION", "SqliteFile"]

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


class _SharedConnection:
    """The connection to a file, and the thread on which it is used.

    `read`, `write` and `open` are called on that thread.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.users = 0
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="treadle-lossless")
        self._connection: sqlite3.Connection | None = None

    def read(self, job: _Job[T]) -> T:
        """Return what a job reads; the file is created only by the first write."""
        if self._connection is None and self.path is not None and not self.path.exists():
            with closing(_connect_in_memory()) as nothing:
                return job(nothing)
        return self._transact("BEGIN", job)

    def open(self) -> None:
        """Open the file, if there is one; the first job that uses it gets the errors."""
        with suppress(TreadleError):
            self.read(lambda _: None)

    def write(self, job: _Job[T]) -> T:
        """Return what a job did, durable."""
        return self._transact("BEGIN IMMEDIATE", job)

    def _transact(self, begin: str, job: _Job[T]) -> T:
        """Run a job as one transaction."""
        with sqlite_errors(self.path or Path("lossless.db")):
            if self._connection is None:
                self._connection = self._connect()
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
        """Finish the jobs that were accepted, then close the file."""
        self.pool.shutdown()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return _connect_in_memory()
        ensure_writable(self.path)
        connection = connect(self.path, "mode=rwc")
        with close_on_error(connection):
            _check_version(connection, self.path)
            start_wal(connection, self.path, BUSY_SECONDS)
            return _create_tables(connection)


_connections: dict[Path, _SharedConnection] = {}
_connections_lock = Lock()


def _acquire(path: Path | None) -> _SharedConnection:
    """Return the connection to a file; memory is never shared."""
    if path is None:
        return _SharedConnection(None)
    with _connections_lock:
        shared = _connections.setdefault(path.absolute(), _SharedConnection(path))
        shared.users += 1
    return shared


def _release(shared: _SharedConnection) -> None:
    """Close a file that has no users any more."""
    if shared.path is not None:
        with _connections_lock:
            shared.users -= 1
            if shared.users:
                return
            del _connections[shared.path.absolute()]
    shared.close()


class SqliteFile:
    """A file, or memory where there is no path; opened at first use."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._shared: _SharedConnection | None = None
        self._closed = False

    def open_in_background(self) -> None:
        """Open the file on its thread; do not wait for it."""
        shared = self._connection()
        shared.pool.submit(shared.open)

    async def read(self, job: _Job[T]) -> T:
        """Return what `job` reads."""
        return await self._run(_SharedConnection.read, job)

    async def write(self, job: _Job[T]) -> T:
        """Return what `job` did, durable."""
        return await self._run(_SharedConnection.write, job)

    async def close(self) -> None:
        """Close the file. Harmless when called twice."""
        shared, self._shared, self._closed = self._shared, None, True
        if shared is not None:
            await asyncio.to_thread(_release, shared)

    async def _run(self, use: Callable[[_SharedConnection, _Job[T]], T], job: _Job[T]) -> T:
        shared, loop = self._connection(), asyncio.get_running_loop()
        return await loop.run_in_executor(shared.pool, use, shared, job)

    def _connection(self) -> _SharedConnection:
        if self._closed:
            raise StoreClosed("the library of summaries was closed; open it again")
        if self._shared is None:
            self._shared = _acquire(self.path)
        return self._shared


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version > VERSION:
        raise StoreTooNew(f"{str(path)!r} was written by a newer Treadle; upgrade, or move it away")
    if version and application != APPLICATION_ID:
        raise StoreCorrupt(f"{str(path)!r} is no library of summaries; move it away")


def _connect_in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    return _create_tables(connection)


def _create_tables(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Create the tables where there are none."""
    # What a power cut may lose here can be made again from the log.
    connection.execute("PRAGMA synchronous = NORMAL")
    if _has_tables(connection):
        return connection
    connection.execute("BEGIN IMMEDIATE")
    if not _has_tables(connection):
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
    return connection


def _has_tables(connection: sqlite3.Connection) -> bool:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return bool(version)
