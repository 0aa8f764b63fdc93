"""Looking at a home that others may be writing, without a trace.

Owns how `log.db` and `index.db` are read by whoever only shows them. Invariants: no file of
the home is made, changed or kept open: not even the shared memory that SQLite makes beside a
log that nobody writes; and what a query sees is one snapshot.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from ..core.errors import StoreCorrupt, StoreError, StoreReadOnly
from .contract import Store
from .database import close_on_error, connect, sqlite_errors
from .index import APPLICATION_ID, SCHEMA, VERSION, SqliteIndex, create_tables, schema_checksum
from .migrations import MIGRATIONS, check_layout
from .sqlite import SqliteStore
from .workers import Job, LogReaders

__all__ = [
    "FileState",
    "LookingIndex",
    "LookingStore",
    "Opener",
    "file_state",
    "look",
    "open_index",
]

T = TypeVar("T")
FileState: TypeAlias = tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]
"""A database and its write-ahead log: file number, size and time of each that is there."""
Opener: TypeAlias = Callable[[Path | None, str], sqlite3.Connection]
"""Opens a database by its path and how SQLite is to open it; None stands for one without rows."""

_TRIES = 8
_ONLY_READ = "this home was opened to look at it only; nothing is written"


def file_state(path: Path) -> FileState:
    """Return in which state a database is on the disk: another one after each change of it."""
    return _look(path), _look(path.with_name(f"{path.name}-wal"))


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class LookingStore(SqliteStore):
    """The store of a home, to look at; one without a log is empty. Writing raises."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, StoreReadOnly(_ONLY_READ), time.time)
        self._readers = _LookingReaders(directory / "log.db", _open_log)


class LookingIndex(SqliteIndex):
    """The index of a home, to look at; one that is missing or of another version is empty."""

    def __init__(self, store: Store, directory: Path) -> None:
        super().__init__(store, directory)
        self._looked_at = directory / "index.db"

    def _run_job(self, begin: str, job: Job[T]) -> T:
        if begin != "BEGIN":
            raise StoreReadOnly(_ONLY_READ)
        try:
            return look(self._looked_at, open_index, job)
        except StoreCorrupt:
            return look(None, open_index, job)


class _LookingReaders(LogReaders):
    """Runs each query on a connection of its own: one that stays open would keep files in use."""

    def __init__(self, path: Path, opened: Opener) -> None:
        super().__init__(path)
        self._looked_at, self._opened = path, opened

    def _run(self, query: Job[T]) -> T:
        return look(self._looked_at, self._opened, query)


def look(path: Path | None, opened: Opener, query: Job[T]) -> T:
    """Return what `query` finds in the database at `path`, without a trace.

    Where no write-ahead log is there, nobody writes: the file is read as one that cannot change,
    and read again if it did. Else SQLite keeps writers and us apart.
    """
    for _ in range(_TRIES):
        before = (None, None) if path is None else file_state(path)
        still = before[1] is None
        try:
            with sqlite_errors(path or Path("log.db")):
                here = path if before[0] and before[0][1] else None
                found = _run(opened(here, "mode=ro&immutable=1" if still else "mode=ro"), query)
        except (StoreCorrupt, StoreReadOnly):
            # What looks damaged may only have been read while somebody began to write it.
            if path is None or file_state(path) == before:
                raise
            continue
        if path is None or not still or file_state(path) == before:
            return found
    raise StoreError(f"{str(path)!r} changes faster than it can be read; try again")


def _run(connection: sqlite3.Connection, query: Job[T]) -> T:
    try:
        connection.execute("BEGIN")
        return query(connection)
    finally:
        connection.close()


def _open_log(path: Path | None, how: str) -> sqlite3.Connection:
    if path is None:
        empty = sqlite3.connect(":memory:", isolation_level=None)
        for step in MIGRATIONS:
            step(empty)
        return empty
    connection = connect(path, how)
    with close_on_error(connection):
        connection.layout = check_layout(connection, path)
    return connection


def open_index(path: Path | None, how: str) -> sqlite3.Connection:
    """Open the index; one that is missing or of another version is empty."""
    if path is not None:
        connection = connect(path, how)
        with close_on_error(connection):
            if _is_current(connection):
                return connection
        connection.close()
    empty = sqlite3.connect(":memory:", isolation_level=None)
    create_tables(empty)
    return empty


def _is_current(connection: sqlite3.Connection) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    known = (application, version) == (APPLICATION_ID, VERSION)
    return known and schema_checksum(connection) == SCHEMA
