"""The ledger's rows in `index.db`.

Owns how requests, their segments and calibrations are kept. A request stores only
the segments that differ from the one before. Invariant: the newest generation at
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
    "change_calibration",
    "find_calibration",
    "keep_request",
    "newest_request",
    "newest_row",
    "note_usage",
    "requests_of",
]

TABLES = (
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


def keep_request(
    connection: sqlite3.Connection, thread: int, row: LedgerRow, segments: Sequence[Segment]
) -> None:
    """Keep one request and its new segments; the same number again replaces it.

    One whose predecessor was lost (no room, a file that broke) is lost with it: its own
    segments alone are no request. Whoever opens the thread next goes on from what is kept.
    """
    if row.number > _newest(connection, thread) + 1:
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


def _newest(connection: sqlite3.Connection, thread: int) -> int:
    (number,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM requests WHERE thread = ?", (thread,)
    ).fetchone()
    return int(number)


def note_usage(connection: sqlite3.Connection, thread: int, seq: int, usage: TokenUsage) -> None:
    """Note what the provider said of the request at `seq`."""
    connection.execute(
        "UPDATE requests SET input_tokens = ?, cached_tokens = ? WHERE thread = ? AND seq = ?",
        (usage.input_tokens, usage.cached_input_tokens, thread, seq),
    )


def requests_of(connection: sqlite3.Connection, number: int, thread: str) -> list[LedgerRow]:
    """The requests of a thread, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM requests WHERE thread = ? ORDER BY number", (number,)
    )
    return [_row(row, thread) for row in rows]


def newest_row(connection: sqlite3.Connection, number: int, thread: str) -> LedgerRow | None:
    """The newest request of a thread."""
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM requests WHERE thread = ? ORDER BY number DESC LIMIT 1", (number,)
    ).fetchone()
    return None if found is None else _row(found, thread)


def newest_request(
    connection: sqlite3.Connection, number: int, thread: str
) -> tuple[LedgerRow, list[Segment]] | None:
    """The newest request of a thread with all of its segments."""
    row = newest_row(connection, number, thread)
    if row is None:
        return None
    # SQLite takes the bare columns from the row that holds the maximum.
    segments = connection.execute(
        "SELECT position, kind, size, digest, seq, max(generation) FROM segments "
        "WHERE thread = ? AND position < ? GROUP BY position ORDER BY position",
        (number, row.segments),
    )
    return row, [Segment(*segment[:5]) for segment in segments]


def find_calibration(connection: sqlite3.Connection, model: str) -> Calibration:
    """What was learnt about a model's tokens."""
    row = connection.execute(
        "SELECT ratio, samples FROM calibrations WHERE model = ?", (model,)
    ).fetchone()
    return Calibration() if row is None else Calibration(*row)


def change_calibration(
    connection: sqlite3.Connection, model: str, learn: Callable[[Calibration], Calibration]
) -> None:
    """Keep what `learn` makes of what was learnt before."""
    before = find_calibration(connection, model)
    calibration = learn(before)
    if calibration == before:
        return
    connection.execute(
        "REPLACE INTO calibrations (model, ratio, samples) VALUES (?, ?, ?)",
        (model, calibration.ratio, calibration.samples),
    )


def _row(row: Sequence[object], thread: str) -> LedgerRow:
    fields = dict(zip(_FIELDS, row, strict=True))
    fields["unexplained"] = bool(fields["unexplained"])
    return LedgerRow(thread=thread, **fields)  # type: ignore[arg-type]
