"""How far each thread is indexed.

Owns the threads that `index.db` knows. `upto` counts a thread's own entries that can
be found; `complete` says that its ancestors' can be too. Invariant: words and cursor
move in one transaction, so that no entry is indexed twice or left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .contract import Span, ThreadInfo

if TYPE_CHECKING:
    from .finding.tables import Document

__all__ = [
    "TABLES",
    "add_documents",
    "completed",
    "everything",
    "forget",
    "note_complete",
    "number_for",
    "number_of",
    "upto",
]

TABLES = (
    """
    CREATE TABLE threads (
      number   INTEGER PRIMARY KEY,
      id       TEXT NOT NULL UNIQUE,
      upto     INTEGER NOT NULL DEFAULT 0,
      complete INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
)


def number_of(connection: sqlite3.Connection, thread: str) -> int:
    """The number of a thread, 0 for one that was never seen."""
    row = connection.execute("SELECT number FROM threads WHERE id = ?", (thread,)).fetchone()
    return 0 if row is None else int(row[0])


def number_for(connection: sqlite3.Connection, thread: str) -> int:
    """The number of a thread, a new one for one that was never seen."""
    connection.execute("INSERT INTO threads (id) VALUES (?) ON CONFLICT DO NOTHING", (thread,))
    return number_of(connection, thread)


def upto(connection: sqlite3.Connection, thread: str) -> int:
    """The last entry of a thread's own that can be found."""
    row = connection.execute("SELECT upto FROM threads WHERE id = ?", (thread,)).fetchone()
    return 0 if row is None else int(row[0])


def everything(connection: sqlite3.Connection) -> dict[str, int]:
    """How far each known thread is indexed."""
    return dict(connection.execute("SELECT id, upto FROM threads").fetchall())


def completed(connection: sqlite3.Connection) -> dict[str, int]:
    """How far the threads are indexed whose ancestors are, too."""
    return dict(connection.execute("SELECT id, upto FROM threads WHERE complete").fetchall())


def note_complete(
    connection: sqlite3.Connection, info: ThreadInfo, lineage: Sequence[Span]
) -> bool:
    """Note that a thread can be found whole, as of `info`; False when that is no longer so."""
    if any(upto(connection, span.thread) < span.last for span in lineage):
        return False
    connection.execute(
        "UPDATE threads SET complete = 1, upto = max(upto, ?) WHERE number = ?",
        (info.last, number_for(connection, info.id)),
    )
    return True


def add_documents(
    connection: sqlite3.Connection,
    thread: str,
    documents: Sequence[Document],
    *,
    after: int,
    last: int,
) -> None:
    """Make the entries up to `last` findable.

    Another process may have indexed some of them meanwhile, or have forgotten those up
    to `after`: then nothing is added, for there must be no gap.
    """
    from .finding import tables

    number, done = number_for(connection, thread), upto(connection, thread)
    if done < after:
        return
    tables.add_documents(connection, number, [doc for doc in documents if doc.seq > done])
    connection.execute("UPDATE threads SET upto = max(upto, ?) WHERE number = ?", (last, number))


def forget(connection: sqlite3.Connection, thread: str | None) -> None:
    """Drop what is known of a thread, or everything."""
    from .finding import tables

    if thread is None:
        tables.clear(connection)
        for table in ("requests", "segments", "calibrations", "threads"):
            connection.execute(f"DELETE FROM {table}")
        return
    number = number_of(connection, thread)
    connection.execute("DELETE FROM requests WHERE thread = ?", (number,))
    connection.execute("DELETE FROM segments WHERE thread = ?", (number,))
    kept = tables.drop_documents(connection, number)
    connection.execute("DELETE FROM threads WHERE number = ?", (number,))
    # Forks may need what was dropped: their next search looks at their whole lineage again.
    connection.execute("UPDATE threads SET complete = 0")
    if not kept:
        connection.execute("UPDATE threads SET upto = 0")
