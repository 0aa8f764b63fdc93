"""The layout of `log.db`, as a list of steps.

Owns every table of the log and the numbers that mark the file as ours. Invariant:
a published step never changes; a new layout is a new step at the end, and
`PRAGMA user_version` counts the steps a file has taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from ..core.errors import StoreCorrupt, StoreTooNew
from ..core.wire import json_bytes

__all__ = ["APPLICATION_ID", "CHECKSUMS", "MIGRATIONS", "check_layout", "migrate"]

Migration: TypeAlias = Callable[[sqlite3.Connection], None]

APPLICATION_ID = 0x57454654
"""Stands in the header of every log, so that `file` and we can recognise it."""

MIGRATIONS: list[Migration] = []
"""Every step, in order."""


def add_step(step: Migration) -> Migration:
    """Add a step to the end of the list."""
    MIGRATIONS.append(step)
    return step


@add_step
def first_layout(connection: sqlite3.Connection) -> None:
    """Create threads, entries, turns, blobs, inbox and outbox."""
    for statement in _FIRST_LAYOUT:
        connection.execute(statement)


_FIRST_LAYOUT = (
    """
    CREATE TABLE threads (
      number   INTEGER PRIMARY KEY,
      id       TEXT NOT NULL UNIQUE,
      root     INTEGER REFERENCES threads (number),
      parent   INTEGER REFERENCES threads (number),
      cut      INTEGER NOT NULL DEFAULT 0,
      turn_cut INTEGER NOT NULL DEFAULT 0,
      cwd      TEXT NOT NULL,
      title    TEXT NOT NULL,
      created  INTEGER NOT NULL,
      updated  INTEGER NOT NULL,
      last     INTEGER NOT NULL DEFAULT 0,
      turns    INTEGER NOT NULL DEFAULT 0,
      fence    INTEGER NOT NULL DEFAULT 0,
      holder   TEXT,
      deleted  INTEGER
    ) STRICT
    """,
    "CREATE INDEX threads_by_parent ON threads (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX threads_by_root ON threads (root) WHERE root IS NOT NULL",
    """
    CREATE TABLE origins (
      number INTEGER PRIMARY KEY,
      origin TEXT NOT NULL UNIQUE
    ) STRICT
    """,
    """
    CREATE TABLE blobs (
      number INTEGER PRIMARY KEY,
      digest TEXT NOT NULL UNIQUE,
      data   BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE blob_users (
      thread INTEGER NOT NULL REFERENCES threads (number),
      blob   INTEGER NOT NULL REFERENCES blobs (number),
      seq    INTEGER NOT NULL,
      PRIMARY KEY (thread, blob)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX blob_users_by_blob ON blob_users (blob)",
    """
    CREATE TABLE entries (
      id         INTEGER PRIMARY KEY,
      kind       TEXT NOT NULL,
      item       TEXT,
      turn       INTEGER NOT NULL,
      step       INTEGER NOT NULL,
      time       INTEGER NOT NULL,
      tokens     INTEGER NOT NULL,
      flags      INTEGER NOT NULL,
      fragments  TEXT,
      provenance TEXT,
      events     TEXT,
      origin     INTEGER REFERENCES origins (number),
      source_id  TEXT,
      blob       INTEGER,
      body       BLOB
    ) STRICT
    """,
    """
    CREATE TABLE turns (
      id       INTEGER PRIMARY KEY,
      thread   INTEGER NOT NULL REFERENCES threads (number),
      turn     TEXT NOT NULL,
      first    INTEGER NOT NULL,
      state    TEXT NOT NULL,
      admitted INTEGER NOT NULL,
      ended    INTEGER,
      outcome  TEXT,
      usage    TEXT,
      input    TEXT NOT NULL,
      UNIQUE (thread, turn)
    ) STRICT
    """,
    """
    CREATE TABLE inbox (
      number     INTEGER PRIMARY KEY AUTOINCREMENT,
      thread     INTEGER NOT NULL REFERENCES threads (number),
      key        TEXT NOT NULL,
      kind       TEXT NOT NULL,
      time       INTEGER NOT NULL,
      taken      INTEGER,
      provenance TEXT,
      events     TEXT,
      body       TEXT NOT NULL,
      UNIQUE (thread, key)
    ) STRICT
    """,
    "CREATE INDEX inbox_waiting ON inbox (thread, number) WHERE taken IS NULL",
    """
    CREATE TABLE outbox (
      number   INTEGER PRIMARY KEY AUTOINCREMENT,
      thread   INTEGER NOT NULL REFERENCES threads (number),
      topic    TEXT NOT NULL,
      key      TEXT NOT NULL,
      state    TEXT NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0,
      error    TEXT,
      created  INTEGER NOT NULL,
      updated  INTEGER NOT NULL,
      body     TEXT NOT NULL,
      UNIQUE (thread, topic, key)
    ) STRICT
    """,
)


@add_step
def add_rollback_index(connection: sqlite3.Connection) -> None:
    """Add an index of rollbacks, so that nobody reads the whole log to find them."""
    connection.execute("CREATE INDEX entries_rollbacks ON entries (id) WHERE kind = 'rollback'")


@add_step
def add_checksums(connection: sqlite3.Connection) -> None:
    """Give each entry a checksum, and find open turns without looking at the ended ones."""
    connection.execute("ALTER TABLE entries ADD COLUMN checksum INTEGER")
    connection.execute("CREATE INDEX turns_open ON turns (thread) WHERE ended IS NULL")
    newest = 0
    while page := connection.execute(_UNCHECKED, (newest,)).fetchall():
        connection.executemany(
            "UPDATE entries SET checksum = ? WHERE id = ?",
            [(crc32(row[13] or b"", crc32(json_bytes(row[:13]))), row[0]) for row in page],
        )
        newest = page[-1][0]


_UNCHECKED = """
  SELECT e.id, e.kind, e.item, e.turn, e.step, e.time, e.tokens, e.flags, e.fragments,
    e.provenance, e.events, o.origin, e.source_id, coalesce(e.body, b.data)
  FROM entries e LEFT JOIN origins o ON o.number = e.origin LEFT JOIN blobs b ON b.number = e.blob
  WHERE e.id > ? ORDER BY e.id LIMIT 500
"""

CHECKSUMS = 3
"""The first layout in which entries have checksums."""


def check_layout(connection: sqlite3.Connection, path: Path) -> int:
    """Return how many steps the file has taken; raise for a file that is not ours to read."""
    application, version, tables = _file_marks(connection)
    if (application, version, tables) == (0, 0, 0):
        return 0
    if application != APPLICATION_ID:
        raise StoreCorrupt(
            f"{str(path)!r} is a database, but no Treadle log; "
            "move it away, or point TREADLE_HOME at another directory"
        )
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"{str(path)!r} has layout {version}, and this Treadle knows up to {len(MIGRATIONS)}; "
            "upgrade Treadle to open it"
        )
    return version


def _file_marks(connection: sqlite3.Connection) -> tuple[int, ...]:
    """Return application id, version and number of tables, from one snapshot."""
    began = not connection.in_transaction
    if began:
        connection.execute("BEGIN")
    try:
        return tuple(connection.execute(query).fetchone()[0] for query in _MARKS)
    finally:
        # After some failures SQLite has ended the transaction by itself.
        if began and connection.in_transaction:
            connection.execute("ROLLBACK")


_MARKS = (
    "PRAGMA application_id",
    "PRAGMA user_version",
    "SELECT count(*) FROM sqlite_schema",
)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the newest layout, in one transaction."""
    if check_layout(connection, path) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster between the look and the lock.
        for step in MIGRATIONS[check_layout(connection, path) :]:
            step(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
