"""The history of workspaces: `files.db` in Treadle's home.

Owns its tables, the copies of contents and the lock around every use. Each scan of a directory
has a number; a version of a path holds from the scan that first saw it up to the one that saw
something else. Invariants: a content is stored once, whoever needs it; one process at a time
scans, restores or deletes; what is here can be lost without losing a conversation.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from ..core.errors import StoreTooNew
from ..store.database import connect, ensure_writable, sqlite_errors, start_wal

__all__ = ["ENDLESS", "FILE_NAME", "FileHistory", "FileVersion", "Root", "open_history"]

FILE_NAME = "files.db"
_LOCK_NAME = "files.lock"
_LAYOUT = 1
_APPLICATION_ID = 0x54524653
_BUSY_SECONDS = 10.0
_WORTH_PACKING = 512

ENDLESS = (1 << 62) - 1
"""The end of a version that still holds."""

_TABLES = """
  CREATE TABLE roots (
    number INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, scan INTEGER NOT NULL DEFAULT 0,
    complete INTEGER, rules BLOB, used INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE TABLE versions (
    root INTEGER NOT NULL, path BLOB NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    kind TEXT NOT NULL, mode INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL, inode INTEGER NOT NULL, seen INTEGER NOT NULL, digest BLOB,
    PRIMARY KEY (root, path, first)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX versions_by_end ON versions (root, last);
  CREATE INDEX versions_by_digest ON versions (digest) WHERE digest IS NOT NULL;
  CREATE TABLE objects (
    digest BLOB PRIMARY KEY, size INTEGER NOT NULL, packed INTEGER NOT NULL, data BLOB NOT NULL
  ) STRICT;
  CREATE TABLE windows (
    number INTEGER PRIMARY KEY, root INTEGER NOT NULL, kind TEXT NOT NULL,
    before INTEGER NOT NULL, after INTEGER, began INTEGER NOT NULL, whole INTEGER NOT NULL,
    passed BLOB NOT NULL DEFAULT x'', rewind INTEGER
  ) STRICT;
  CREATE TABLE owners (
    window INTEGER NOT NULL, thread TEXT NOT NULL, seq INTEGER NOT NULL, own INTEGER NOT NULL,
    PRIMARY KEY (thread, window)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX owners_by_window ON owners (window);
  CREATE TABLE rewinds (
    number INTEGER PRIMARY KEY, thread TEXT NOT NULL, began INTEGER NOT NULL,
    state TEXT NOT NULL, plan BLOB NOT NULL, rollback INTEGER, turns INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX rewinds_by_thread ON rewinds (thread);
"""


class Root(Struct):
    """A directory whose files are kept."""

    number: int
    path: Path
    scan: int
    """The newest scan that saw a change."""
    complete: int | None
    """The first scan that saw the whole directory; before it, what has no version is unknown."""
    rules: bytes | None
    """What the newest whole scan looked at; None after one that was not whole."""


class FileVersion(Struct, frozen=True, gc=False):
    """What was at a path for some scans.

    `kind` is ``f`` for a file, ``l`` for a link, ``d`` for a directory, ``-`` for nothing and
    ``?`` for what nobody looked at in time. A file without a `digest` was not copied.
    """

    path: bytes
    first: int
    last: int
    kind: str
    mode: int = 0
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    inode: int = 0
    seen: int = 0
    """When its content was read, in nanoseconds."""
    digest: bytes | None = None

    @property
    def exists(self) -> bool:
        """Whether something was there."""
        return self.kind in "fld"

    @property
    def is_known(self) -> bool:
        """Whether it can be made again."""
        return self.kind in "-d" or self.digest is not None

    def is_same(self, other: FileVersion) -> bool:
        """Whether both are the same thing on disk."""
        same = (self.kind, self.mode, self.digest) == (other.kind, other.mode, other.digest)
        if not same or self.kind != "f" or self.digest is not None:
            return same
        return (self.size, self.mtime, self.inode) == (other.size, other.mtime, other.inode)


@contextmanager
def open_history(home: Path) -> Iterator[FileHistory]:
    """Open the history in `home`, alone. Waits for others; raises `StoreError`, `OSError`."""
    path = home / FILE_NAME
    ensure_writable(path)
    lock = os.open(home / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with sqlite_errors(path):
            connection = connect(path, "mode=rwc", _BUSY_SECONDS)
            try:
                _prepare(connection, path)
                yield FileHistory(connection)
            finally:
                connection.close()
    finally:
        os.close(lock)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if layout > _LAYOUT:
        raise StoreTooNew(
            f"{str(path)!r} has layout {layout}, and this Treadle knows up to {_LAYOUT}; "
            "upgrade Treadle, or move the file away"
        )
    if layout == 0:
        # Before the first page is written: later it would take a copy of the whole file.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        start_wal(connection, path, _BUSY_SECONDS)
        connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {_LAYOUT};")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute("COMMIT")
    # A copy that a loss of power takes back was made moments ago; a restore asks for more.
    connection.execute("PRAGMA synchronous = NORMAL")


class FileHistory:
    """The versions and copies of files, while this process has them to itself."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @contextmanager
    def transaction(self, *, durable: bool = False, keep: bool = True) -> Iterator[None]:
        """Write all or nothing; with `durable` it is on the disk afterwards.

        Without `keep` it is taken back in any case.
        """
        if durable:
            self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT" if keep else "ROLLBACK")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    @property
    def used_bytes(self) -> int:
        """The size of the file without its free pages."""
        pages, free, size = (
            self.connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def find_root(self, path: Path) -> Root | None:
        """Return what is known of a directory."""
        row = self.connection.execute(
            "SELECT number, scan, complete, rules FROM roots WHERE path = ?", (os.fsencode(path),)
        ).fetchone()
        return None if row is None else Root(row[0], path, *row[1:])

    def root(self, number: int) -> Root:
        """Return a directory by its number."""
        row = self.connection.execute(
            "SELECT path, scan, complete, rules FROM roots WHERE number = ?", (number,)
        ).fetchone()
        return Root(number, Path(os.fsdecode(row[0])), *row[1:])

    def add_root(self, path: Path) -> Root:
        """Return a directory, which is new unless it is known."""
        self.connection.execute(
            "INSERT INTO roots (path) VALUES (?) ON CONFLICT DO NOTHING", (os.fsencode(path),)
        )
        found = self.find_root(path)
        assert found is not None
        return found

    def save_root(self, root: Root, now: int) -> None:
        """Record what a scan has found out about a directory."""
        self.connection.execute(
            "UPDATE roots SET scan = ?, complete = ?, rules = ?, used = ? WHERE number = ?",
            (root.scan, root.complete, root.rules, now, root.number),
        )

    def live_versions(self, root: int) -> dict[bytes, FileVersion]:
        """Return what the newest scans saw, by path."""
        return {
            row[0]: FileVersion(*row)
            for row in self.connection.execute(
                f"SELECT {_VERSION} FROM versions WHERE root = ? AND last = ?", (root, ENDLESS)
            )
        }

    def live_version(self, root: int, path: bytes) -> FileVersion | None:
        """Return what the newest scan of a path saw."""
        row = self.connection.execute(
            f"SELECT {_VERSION} FROM versions WHERE root = ? AND path = ? AND last = ?",
            (root, path, ENDLESS),
        ).fetchone()
        return None if row is None else FileVersion(*row)

    def versions_of(self, root: int, path: bytes) -> list[FileVersion]:
        """Return all versions of a path, oldest first."""
        rows = self.connection.execute(
            f"SELECT {_VERSION} FROM versions WHERE root = ? AND path = ? ORDER BY first",
            (root, path),
        )
        return [FileVersion(*row) for row in rows]

    def changed_paths(self, root: int, after: int, upto: int) -> set[bytes]:
        """Return the paths that a scan after `after` and up to `upto` saw changed."""
        rows = self.connection.execute(
            "SELECT path FROM versions WHERE root = :root AND first > :after AND first <= :upto "
            "UNION SELECT path FROM versions "
            "WHERE root = :root AND last > :after AND last <= :upto",
            {"root": root, "after": after, "upto": upto},
        )
        return {row[0] for row in rows}

    def end_version(self, root: int, version: FileVersion, scan: int) -> None:
        """Record that a scan no longer saw a version."""
        self.connection.execute(
            "UPDATE versions SET last = ? WHERE root = ? AND path = ? AND first = ?",
            (scan, root, version.path, version.first),
        )

    def add_version(self, root: int, version: FileVersion) -> None:
        """Record a version; one of the same path and scan is replaced."""
        self.connection.execute(
            f"INSERT OR REPLACE INTO versions (root, {_VERSION}) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(root, version.path, version.first, version.last, version.kind, version.mode),
                *(version.size, version.mtime, version.ctime, version.inode, version.seen),
                version.digest,
            ),
        )

    def put(self, data: bytes) -> bytes:
        """Store a content once; return its digest."""
        digest = hashlib.sha256(data).digest()
        if self.has(digest):
            return digest
        packed = zlib.compress(data, 1) if len(data) > _WORTH_PACKING else data
        smaller = len(packed) < len(data)
        self.connection.execute(
            "INSERT INTO objects VALUES (?, ?, ?, ?)",
            (digest, len(data), int(smaller), packed if smaller else data),
        )
        return digest

    def has(self, digest: bytes) -> bool:
        """Return whether a content is stored."""
        found = self.connection.execute("SELECT 1 FROM objects WHERE digest = ?", (digest,))
        return found.fetchone() is not None

    def content(self, digest: bytes) -> bytes:
        """Return a stored content."""
        packed, data = self.connection.execute(
            "SELECT packed, data FROM objects WHERE digest = ?", (digest,)
        ).fetchone()
        return zlib.decompress(data) if packed else bytes(data)


_VERSION = "path, first, last, kind, mode, size, mtime, ctime, inode, seen, digest"
