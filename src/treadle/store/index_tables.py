"""The tables of the ledger in `index.db`, and the threads that the index knows.

Owns how requests and their segments are stored. A request stores only
the segments that differ from the request before. Invariant: the newest generation at
each position, cut at the newest request's length, is that request whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.usage import TokenUsage
from .contract import LedgerRow, Segment
from .log_database import LogDatabase

__all__ = [
    "COLUMNS",
    "TABLES",
    "ensure_thread_number",
    "find_thread_number",
    "ledger_row",
    "newest_request",
    "newest_row",
    "save_request",
    "save_usage",
    "thread_requests",
]

TABLES = (
    # `upto` is the last of a thread's own entries that is indexed for search; `complete`
    # says that its ancestors' entries are indexed, too.
    """
    CREATE TABLE threads (
      number   INTEGER PRIMARY KEY,
      id       TEXT NOT NULL UNIQUE,
      upto     INTEGER NOT NULL DEFAULT 0,
      complete INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    """
    CREATE TABLE requests (
      thread          INTEGER NOT NULL REFERENCES threads (number),
      number          INTEGER NOT NULL,
      seq             INTEGER NOT NULL,
      turn            INTEGER NOT NULL,
      step            INTEGER NOT NULL,
      time            INTEGER NOT NULL,
      epoch           INTEGER NOT NULL,
      segments        INTEGER NOT NULL,
      size            INTEGER NOT NULL,
      digest          TEXT NOT NULL,
      shared_segments INTEGER NOT NULL,
      shared_size     INTEGER NOT NULL,
      reason          TEXT,
      difference      TEXT,
      unexplained     INTEGER NOT NULL,
      input_tokens    INTEGER,
      cached_tokens   INTEGER,
      PRIMARY KEY (thread, number)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE segments (
      thread     INTEGER NOT NULL REFERENCES threads (number),
      position   INTEGER NOT NULL,
      generation INTEGER NOT NULL,
      kind       TEXT NOT NULL,
      size       INTEGER NOT NULL,
      digest     TEXT NOT NULL,
      seq        INTEGER,
      PRIMARY KEY (thread, position, generation)
    ) STRICT, WITHOUT ROWID
    """,
    # Nobody fills it any more; it stays because a file is known by how its tables were declared.
    """
    CREATE TABLE calibrations (
      model   TEXT PRIMARY KEY,
      ratio   REAL NOT NULL,
      samples INTEGER NOT NULL
    ) STRICT
    """,
)

_FIELDS = LedgerRow.__struct_fields__[1:]
_UNEXPLAINED = _FIELDS.index("unexplained")
COLUMNS = ", ".join(_FIELDS)


def find_thread_number(connection: LogDatabase, thread: str) -> int:
    """Return the number of a thread, 0 for one that the index does not know."""
    row = connection.execute("SELECT number FROM threads WHERE id = ?", (thread,)).fetchone()
    return 0 if row is None else int(row[0])


def ensure_thread_number(connection: LogDatabase, thread: str) -> int:
    """Return the number of a thread; give one to a thread that the index does not know."""
    connection.execute("INSERT INTO threads (id) VALUES (?) ON CONFLICT DO NOTHING", (thread,))
    return find_thread_number(connection, thread)


def save_request(
    connection: LogDatabase, thread: int, row: LedgerRow, segments: Sequence[Segment]
) -> None:
    """Save a request and its new segments; the same number again replaces it.

    A request whose predecessor was lost (no room, a damaged file) is dropped: its own
    segments alone are no request. The next process goes on from what is saved.
    """
    (newest,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM requests WHERE thread = ?", (thread,)
    ).fetchone()
    if row.number > newest + 1:
        return
    values = [getattr(row, name) for name in _FIELDS]
    values[_UNEXPLAINED] = int(row.unexplained)
    marks = ", ".join("?" * (len(values) + 1))
    if row.number <= newest:
        connection.execute(
            "DELETE FROM requests WHERE thread = ? AND number = ?", (thread, row.number)
        )
        # Only then: it looks through all segments of the thread.
        connection.execute(
            "DELETE FROM segments WHERE thread = ? AND generation = ?", (thread, row.number)
        )
    connection.execute(
        f"INSERT INTO requests (thread, {COLUMNS}) VALUES ({marks})", (thread, *values)
    )
    connection.executemany(
        "INSERT INTO segments (thread, generation, position, kind, size, digest, seq) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(thread, row.number, *msgspec.structs.astuple(segment)) for segment in segments],
    )


def save_usage(connection: LogDatabase, thread: int, seq: int, usage: TokenUsage) -> None:
    """Save what the provider reported of the request at `seq`."""
    # It is one of the newest; from there on no search goes through a long thread.
    connection.execute(
        "UPDATE requests SET input_tokens = ?, cached_tokens = ? WHERE thread = ? AND number = "
        "(SELECT number FROM requests WHERE thread = ? AND seq = ? ORDER BY number DESC LIMIT 1)",
        (usage.input_tokens, usage.cached_input_tokens, thread, thread, seq),
    )


def thread_requests(connection: LogDatabase, thread: str) -> list[LedgerRow]:
    """Return the requests of a thread, oldest first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM requests WHERE thread = ? ORDER BY number",
        (find_thread_number(connection, thread),),
    )
    return [ledger_row(row, thread) for row in rows]


def newest_row(connection: LogDatabase, thread: str) -> LedgerRow | None:
    """Return the newest request of a thread."""
    found = connection.execute(
        f"SELECT {COLUMNS} FROM requests WHERE thread = ? ORDER BY number DESC LIMIT 1",
        (find_thread_number(connection, thread),),
    ).fetchone()
    return None if found is None else ledger_row(found, thread)


# One look at each position: a thread of many requests has far more segments than its newest.
_NEWEST_SEGMENTS = (
    "WITH RECURSIVE places (position) AS ("
    "SELECT 0 UNION ALL SELECT position + 1 FROM places WHERE position + 1 < ?"
    ") SELECT s.position, s.kind, s.size, s.digest, s.seq FROM places p "
    "JOIN segments s ON s.thread = ? AND s.position = p.position AND s.generation = ("
    "SELECT max(generation) FROM segments WHERE thread = ? AND position = p.position) "
    "ORDER BY s.position"
)


def newest_request(connection: LogDatabase, thread: str) -> tuple[LedgerRow, list[Segment]] | None:
    """Return the newest request of a thread with all of its segments."""
    row = newest_row(connection, thread)
    if row is None:
        return None
    number = find_thread_number(connection, thread)
    segments = connection.execute(_NEWEST_SEGMENTS, (row.segments, number, number))
    return row, [Segment(*segment) for segment in segments]


def ledger_row(row: Sequence[object], thread: str) -> LedgerRow:
    """Return the value of a row of `COLUMNS`."""
    fields = dict(zip(_FIELDS, row, strict=True))
    fields["unexplained"] = bool(fields["unexplained"])
    return LedgerRow(thread=thread, **fields)  # type: ignore[arg-type]
