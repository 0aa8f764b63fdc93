"""Connections to SQLite files, and what their failures mean.

Owns how a file is opened for writing and for reading, and the translation of
SQLite's result codes into our errors. Invariant: opening never changes a file
that is not ours.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
)
from ..core.wire import UNREADABLE
from .migrations import MIGRATIONS, check_layout, migrate

__all__ = [
    "BUSY_SECONDS",
    "FileIdentity",
    "LogConnection",
    "close_on_error",
    "connect",
    "ensure_writable",
    "grow_wal",
    "open_reader",
    "open_writer",
    "sqlite_errors",
    "start_wal",
    "translate_error",
]

_USUAL_WAL_BYTES = 1_000 * (4_096 + 24) + 32
"""The write-ahead log when SQLite first moves its 1,000 pages into the database."""
_PLENTY_BYTES = 256 << 20
"""Free room on a disk that does not miss the usual size."""

BUSY_SECONDS = 10.0
"""How long to wait for another process that holds the database's write lock."""

_LOG_SETTINGS = (
    "synchronous = FULL",
    "foreign_keys = ON",
    "secure_delete = ON",
)


class LogConnection(sqlite3.Connection):
    """A connection that knows the layout of its log: one that is only read may be an old one."""

    layout = len(MIGRATIONS)


def connect(path: Path, query: str, busy_seconds: float = BUSY_SECONDS) -> LogConnection:
    """Open a bare connection in autocommit mode, usable from any thread."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=busy_seconds,
        factory=LogConnection,
    )


class FileIdentity:
    """Which files a database was opened as; `check` tells whether they are still there.

    SQLite goes on writing into a file that was deleted or replaced, and what it writes is
    gone when the last process closes it. Files that were gone once count as gone for good:
    what was written meanwhile was told as not written, and is there when they come back.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # As strings: they are looked at with every commit.
        self._names = (str(path), f"{path}-wal")
        self._first: list[tuple[int, int] | None] = [None, None]
        self._first = self._look()
        self._are_gone = False

    def check(self) -> None:
        """Raise `StoreReplaced` unless the files are those that were opened."""
        self.are_there()
        self.check_earlier()

    def check_earlier(self) -> None:
        """Raise `StoreReplaced` if the files were gone when somebody looked; does not look."""
        if self._are_gone:
            raise StoreReplaced(
                f"{str(self._path)!r} was deleted or replaced while it was open; what was to be "
                "written now is not in it: put the file back if you moved it, and open the "
                "thread again"
            )

    def are_there(self) -> bool:
        """Return whether the files are those that were opened."""
        found = self._look()
        if self._first[1] is None and found[0] == self._first[0]:
            self._first = found  # the write-ahead log is made when it is first needed
        self._are_gone |= found != self._first
        return not self._are_gone

    def _look(self) -> list[tuple[int, int] | None]:
        return [_file_number(*each) for each in zip(self._names, self._first, strict=True)]


def _file_number(path: str, known: tuple[int, int] | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - half the cost, and it runs with every commit
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return known  # we may not look there any more, which does not mean that it is gone
    return found.st_dev, found.st_ino


def open_writer(path: Path, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open the log for writing, at the newest layout."""
    ensure_writable(path)
    with sqlite_errors(path):
        connection = connect(path, "mode=rwc", busy_seconds)
        with close_on_error(connection):
            check_layout(connection, path)
            start_wal(connection, path, busy_seconds)
            for setting in _LOG_SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            migrate(connection, path)
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Open the log for reading only, also where nothing can be written."""
    try:
        return _open_checked(path, "mode=ro")
    except (StoreReadOnly, StoreFull):
        # Reading a WAL file needs its shared memory. Where that can neither be found nor
        # made, a file without a pending WAL is complete by itself.
        if _has_pending_wal(path):
            raise
        return _open_checked(path, "mode=ro&immutable=1")


def _has_pending_wal(path: Path) -> bool:
    """Return whether the WAL holds more than the file, or cannot be read."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _open_checked(path: Path, query: str) -> sqlite3.Connection:
    with sqlite_errors(path):
        connection = connect(path, query)
        with close_on_error(connection):
            connection.layout = check_layout(connection, path)
    return connection


def ensure_writable(path: Path) -> None:
    """Make the file's directory, or raise `StoreReadOnly`.

    The file itself is not touched: to open and close it here would drop the locks
    that SQLite holds on it elsewhere in this process.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(_full_text(path)) from error
        raise StoreReadOnly(_read_only_text(path)) from error
    # SQLite opens a file that it may not write for reading, without an error.
    writable = os.access(path.parent, os.W_OK | os.X_OK)
    if not writable or (path.exists() and not os.access(path, os.W_OK)):
        raise StoreReadOnly(_read_only_text(path))


def start_wal(connection: sqlite3.Connection, path: Path, busy_seconds: float) -> None:
    """Put a checked file in WAL mode; a new one belongs to its owner only."""
    if path.stat().st_size == 0:
        path.chmod(0o600)
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # Here SQLite does not wait by itself for others that are starting, too.
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def grow_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Give the write-ahead log the size that it comes to have anyway, before that is needed.

    A sync that finds its place in the file takes a quarter of the time of one that makes the
    file longer, and SQLite begins again at the front when the log is full. Only zeros are added,
    behind the end and while nobody else may write: whoever reads the log stops there.
    """
    with suppress(OSError):
        free = os.statvfs(path.parent)
        if free.f_bavail * free.f_frsize < _PLENTY_BYTES:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            with path.with_name(f"{path.name}-wal").open("r+b") as log:
                size = log.seek(0, os.SEEK_END)
                log.write(bytes(max(0, _USUAL_WAL_BYTES - size)))
                log.flush()
                os.fdatasync(log.fileno())
        finally:
            connection.execute("COMMIT")


@contextmanager
def close_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection when the block raises."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Translate what SQLite raises inside the block into our errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error, path) from error
    except UNREADABLE as error:
        # A column that holds something else than we wrote, or a name that is no text.
        raise StoreCorrupt(_damaged_text(path, error)) from error


def translate_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Return our error for one of SQLite's, by its result code."""
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # The kernel's ENOSPC becomes SQLITE_FULL; quotas and size limits become write errors.
    if extended in {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}:
        return StoreFull(_full_text(path))
    match extended & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(_full_text(path))
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreReadOnly(_read_only_text(path))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(_damaged_text(path, error))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(
                f"another process keeps {str(path)!r} locked; "
                "try again, or look for a backup or database tool that holds it open"
            )
    return StoreError(f"{str(path)!r} could not be used ({error}); check the disk it lies on")


def _damaged_text(path: Path, error: Exception) -> str:
    return (
        f"{str(path)!r} is damaged or no database ({error}); nothing was changed: "
        f"move it away to start anew, or salvage it with `sqlite3 {path.name} .recover`"
    )


def _full_text(path: Path) -> str:
    return (
        f"no room to write {str(path)!r}: the disk, a quota or the file size limit is used up; "
        "nothing was written, so free some space and try again"
    )


def _read_only_text(path: Path) -> str:
    return (
        f"{str(path)!r} cannot be written or opened; "
        "check the owner and mode of the file and its directory, or set TREADLE_HOME"
    )
