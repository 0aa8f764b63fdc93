"""Connections to SQLite files, and what their failures mean.

Owns how a file is opened for writing and for reading, and the translation of
SQLite's result codes into our errors. Invariant: opening never changes a file
that is not ours.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from .migrations import check, migrate

__all__ = [
    "BUSY_SECONDS",
    "closed_on_error",
    "connect",
    "open_reader",
    "open_writer",
    "sqlite_errors",
    "translate",
]

BUSY_SECONDS = 10.0
"""How long to wait for another process that holds the database's write lock."""

_LOG_SETTINGS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "secure_delete = ON",
)


def connect(path: Path, query: str, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A bare connection in autocommit mode, usable from any thread."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=busy_seconds,
    )


def open_writer(path: Path, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """The log, ready to be written, at the newest layout."""
    ensure_writable(path)
    with sqlite_errors(path):
        connection = connect(path, "mode=rwc", busy_seconds)
        with closed_on_error(connection):
            check(connection, path)
            for setting in _LOG_SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            migrate(connection, path)
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """The log for reading only, also from a directory that cannot be written."""
    try:
        return _open_checked(path, "mode=ro")
    except StoreReadOnly:
        # Reading a WAL file needs its shared memory. Where that can neither be found nor
        # made, a file without a pending WAL is complete by itself.
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            raise
        return _open_checked(path, "mode=ro&immutable=1")


def _open_checked(path: Path, query: str) -> sqlite3.Connection:
    with sqlite_errors(path):
        connection = connect(path, query)
        with closed_on_error(connection):
            check(connection, path)
    return connection


def ensure_writable(path: Path) -> None:
    """Make the file, for its owner only, or raise `StoreReadOnly`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(_full(path)) from error
        raise StoreReadOnly(_read_only(path)) from error
    # The WAL is made beside it.
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreReadOnly(_read_only(path))


@contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Closes the connection when the block fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite raises inside the block into our errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Our error for one of SQLite's, told by its result code."""
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # The kernel's ENOSPC becomes SQLITE_FULL; quotas and size limits become write errors.
    if extended in {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}:
        return StoreFull(_full(path))
    match extended & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(_full(path))
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreReadOnly(_read_only(path))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(
                f"{str(path)!r} is damaged or no database ({error}); nothing was changed: "
                f"move it away to start anew, or salvage it with `sqlite3 {path.name} .recover`"
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(
                f"another process keeps {str(path)!r} locked; "
                "try again, or look for a backup or database tool that holds it open"
            )
    return StoreError(f"{str(path)!r} could not be used ({error}); check the disk it lies on")


def _full(path: Path) -> str:
    return (
        f"no room to write {str(path)!r}: the disk, a quota or the file size limit is used up; "
        "nothing was written, so free some space and try again"
    )


def _read_only(path: Path) -> str:
    return (
        f"{str(path)!r} cannot be written or opened; "
        "check the owner and mode of the file and its directory, or set WEFT_HOME"
    )
