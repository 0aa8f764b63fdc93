"""The tables in `index.db` of what answers used.

Owns how the answers of a thread are kept, and how far each thread is counted. Invariant: rows
and progress change in one transaction, so that no answer is counted twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ..core.usage import TokenUsage
from .counted_usage import Counted, RequestUsage
from .index_tables import ensure_thread_number

__all__ = ["TABLES", "add_usages", "counted_threads", "find_usages", "forget_usages"]

TABLES = (
    """
    CREATE TABLE usages (
      thread       INTEGER NOT NULL REFERENCES threads (number),
      seq          INTEGER NOT NULL,
      turn         INTEGER NOT NULL,
      time         INTEGER NOT NULL,
      provider     TEXT NOT NULL,
      model        TEXT NOT NULL,
      service_tier TEXT,
      cache_ttl    TEXT,
      purpose      TEXT NOT NULL,
      input        INTEGER,
      cached       INTEGER,
      written      INTEGER,
      output       INTEGER,
      reasoning    INTEGER,
      total        INTEGER,
      PRIMARY KEY (thread, seq)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX usages_by_time ON usages (time)",
    """
    CREATE TABLE counted (
      thread INTEGER PRIMARY KEY REFERENCES threads (number),
      upto   INTEGER NOT NULL,
      state  BLOB NOT NULL
    ) STRICT
    """,
)

_FIND = """
  SELECT t.id, u.seq, u.turn, u.time, u.provider, u.model, u.service_tier, u.cache_ttl, u.purpose,
    u.input, u.cached, u.written, u.output, u.reasoning, u.total
  FROM usages u JOIN threads t ON t.number = u.thread
"""
_FIGURES = 9
"""Where the token counts begin."""


def counted_threads(connection: sqlite3.Connection) -> dict[str, Counted]:
    """Return how far each thread is counted."""
    rows = connection.execute(
        "SELECT t.id, c.upto, c.state FROM counted c JOIN threads t ON t.number = c.thread"
    )
    return {thread: Counted(upto, state) for thread, upto, state in rows}


def add_usages(
    connection: sqlite3.Connection,
    thread: str,
    after: int,
    rows: Sequence[RequestUsage],
    now: Counted,
) -> None:
    """Keep the answers after the entry `after`; nothing, if somebody counted meanwhile."""
    number = ensure_thread_number(connection, thread)
    done = connection.execute("SELECT upto FROM counted WHERE thread = ?", (number,)).fetchone()
    if (done[0] if done else 0) != after:
        return
    connection.executemany(
        f"INSERT OR REPLACE INTO usages VALUES ({', '.join('?' * 15)})",
        [(number, *_columns(row)) for row in rows],
    )
    connection.execute(
        "INSERT OR REPLACE INTO counted VALUES (?, ?, ?)", (number, now.upto, now.state)
    )


def find_usages(
    connection: sqlite3.Connection, since: int, until: int | None, threads: Sequence[str] | None
) -> list[RequestUsage]:
    """Return answers, the oldest first; only those are read."""
    end = (1 << 62) if until is None else until
    if threads is None:
        rows = connection.execute(
            f"{_FIND} WHERE u.time >= ? AND u.time < ? ORDER BY u.time, u.thread, u.seq",
            (since, end),
        )
        return [_usage(row) for row in rows]
    found = [
        _usage(row)
        for thread in threads
        for row in connection.execute(
            f"{_FIND} WHERE t.id = ? AND u.time >= ? AND u.time < ?", (thread, since, end)
        )
    ]
    return sorted(found, key=lambda row: row.time)


def forget_usages(connection: sqlite3.Connection, number: int | None) -> None:
    """Delete the answers of the thread with this number; all, if there is none."""
    only = "" if number is None else " WHERE thread = :number"
    for table in ("usages", "counted"):
        connection.execute(f"DELETE FROM {table}{only}", {"number": number})


def _columns(row: RequestUsage) -> tuple[object, ...]:
    usage = row.usage
    figures: tuple[int | None, ...] = (None,) * 6
    if usage is not None:
        figures = (
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.cache_write_input_tokens,
            usage.output_tokens,
            usage.reasoning_output_tokens,
            usage.total_tokens,
        )
    named = (row.seq, row.turn, row.time, row.provider, row.model)
    return (*named, row.service_tier, row.cache_ttl, row.purpose, *figures)


def _usage(row: tuple[object, ...]) -> RequestUsage:
    names = RequestUsage.__struct_fields__[:_FIGURES]
    figures = row[_FIGURES:]
    usage = None
    if figures[0] is not None:
        usage = TokenUsage(*figures)  # type: ignore[arg-type]
    fields = dict(zip(names, row[:_FIGURES], strict=True))
    return RequestUsage(**fields, usage=usage)  # type: ignore[arg-type]
