"""The tables of the ledger in `index.db`, and the threads that the index knows.

Owns how requests, their segments and calibrations are stored. A request stores only
the segments that differ from the request before. Invariant: the newest generation at
each position, cut at the newest request's length, is that request whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import msgspec

from ..core.usage import TokenUsage
from .contract import Calibration, LedgerRow, Segment

__all__ = [
    "TABLES",
    "ensure_thread_number",
    "find_calibration",
    "find_thread_number",
    "newest_request",
    "newest_row",
    "save_request",
    "save_usage",
    "thread_requests",
    "update_calibration",
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
    """
    CREATE TABLE calibrations (
      model   TEXT PRIMARY KEY,
      ratio   REAL NOT NULL,
      samples INTEGER NOT NULL
    ) STRICT
    """,
)

_FIELDS = LedgerRow.__struct_fields__[1:]
_COLUMNS = ", ".join(_FIELDS)


def find_thread_number(connection: sqlite3.Connection, thread: str) -> int:
    """Return the number of a thread, 0 for one that the index does not know."""
    row = connection.execute("SELECT number FROM threads WHERE id = ?", (thread,)).fetchone()
    return 0 if row is None else int(row[0])


def ensure_thread_number(connection: sqlite3.Connection, thread: str) -> int:
    """Return the number of a thread; give one to a thread that the index does not know."""
    connection.execute("INSERT INTO threads (id) VALUES (?) ON CONFLICT DO NOTHING", (thread,))
    return find_thread_number(connection, thread)


def save_request(
    connection: sqlite3.Connection, row: LedgerRow, segments: Sequence[Segment]
) -> None:
    """Save a request and its new segments; the same number again replaces it.

    A request whose predecessor was lost (no room, a damaged file) is dropped: its own
    segments alone are no request. The next process goes on from what is saved.
    """
    thread = ensure_thread_number(connection, row.thread)
    (newest,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM requests WHERE thread = ?", (thread,)
    ).fetchone()
    if row.number > newest + 1:
        return
    values = [getattr(row, name) for name in _FIELDS]
    marks = ", ".join("?" * (len(values) + 1))
    connection.execute(
        f"REPLACE INTO requests (thread, {_COLUMNS}) VALUES ({marks})", (thread, *values)
    )
    connection.execute(
        "DELETE FROM segments WHERE thread = ? AND generation = ?", (thread, row.number)
    )
    connection.executemany(
        "INSERT INTO segments (thread, generation, position, kind, size, digest, seq) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(thread, row.number, *msgspec.structs.astuple(segment)) for segment in segments],
    )


def save_usage(connection: sqlite3.Connection, thread: str, seq: int, usage: TokenUsage) -> None:
    """Save what the provider reported of the request at `seq`."""
    connection.execute(
        "UPDATE requests SET input_tokens = ?, cached_tokens = ? WHERE thread = ? AND seq = ?",
        (
            usage.input_tokens,
            usage.cached_input_tokens,
            ensure_thread_number(connection, thread),
            seq,
        ),
    )


def thread_requests(connection: sqlite3.Connection, thread: str) -> list[LedgerRow]:
    """Return the requests of a thread, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM requests WHERE thread = ? ORDER BY number",
        (find_thread_number(connection, thread),),
    )
    return [_ledger_row(row, thread) for row in rows]


def newest_row(connection: sqlite3.Connection, thread: str) -> LedgerRow | None:
    """Return the newest request of a thread."""
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM requests WHERE thread = ? ORDER BY number DESC LIMIT 1",
        (find_thread_number(connection, thread),),
    ).fetchone()
    return None if found is None else _ledger_row(found, thread)


def newest_request(
    connection: sqlite3.Connection, thread: str
) -> tuple[LedgerRow, list[Segment]] | None:
    """Return the newest request of a thread with all of its segments."""
    row = newest_row(connection, thread)
    if row is None:
        return None
    # SQLite takes the bare columns from the row that holds the maximum.
    segments = connection.execute(
        "SELECT position, kind, size, digest, seq, max(generation) FROM segments "
        "WHERE thread = ? AND position < ? GROUP BY position ORDER BY position",
        (find_thread_number(connection, thread), row.segments),
    )
    return row, [Segment(*segment[:5]) for segment in segments]


def find_calibration(connection: sqlite3.Connection, model: str) -> Calibration:
    """Return what is known of a model's tokens."""
    row = connection.execute(
        "SELECT ratio, samples FROM calibrations WHERE model = ?", (model,)
    ).fetchone()
    return Calibration() if row is None else Calibration(*row)


def update_calibration(
    connection: sqlite3.Connection, model: str, learn: Callable[[Calibration], Calibration]
) -> None:
    """Replace what is known of a model's tokens by what `learn` makes of it."""
    before = find_calibration(connection, model)
    calibration = learn(before)
    if calibration == before:
        return
    connection.execute(
        "REPLACE INTO calibrations (model, ratio, samples) VALUES (?, ?, ?)",
        (model, calibration.ratio, calibration.samples),
    )


def _ledger_row(row: Sequence[object], thread: str) -> LedgerRow:
    fields = dict(zip(_FIELDS, row, strict=True))
    fields["unexplained"] = bool(fields["unexplained"])
    return LedgerRow(thread=thread, **fields)  # type: ignore[arg-type]
