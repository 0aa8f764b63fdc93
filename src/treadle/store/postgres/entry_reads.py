"""Reading entries over a network.

Owns how few round trips that takes. Invariant: what makes up a log never changes while the thread
lives, so it may be remembered; that the thread still lives is asked with each read, and after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.entries import Entry
from ...core.errors import NotFound
from ..queries import entries_query, thread_ranges
from ..rows import MAX_SEQ, RowRange, clip_ranges, decode_entry, row_id
from .database_connection import PostgresConnection

__all__ = ["read_line", "read_parts"]

_LIVES = "SELECT 1 FROM threads WHERE id = ? AND number = ? AND deleted IS NULL"


def read_line(connection: PostgresConnection, thread: str) -> list[RowRange]:
    """Return the row ranges of a thread's log."""
    return thread_ranges(connection, thread)


def read_parts(
    connection: PostgresConnection,
    thread: str,
    line: Sequence[RowRange],
    ranges: Sequence[tuple[int, int | None]],
    *,
    reverse: bool,
    limit: int | None,
) -> list[Entry]:
    """Return the entries of several ranges, in the order given, in one round trip.

    Entries never change, and what is added meanwhile is later than what was there: so each
    range may be read on its own.
    """
    query = entries_query(connection, order="DESC" if reverse else "ASC")
    most = MAX_SEQ if limit is None else max(limit, 0)
    asked = []
    with connection.pipeline():
        for first, last in ranges:
            parts = list(clip_ranges(line, first, last))
            for part in reversed(parts) if reverse else parts:
                bounds = row_id(part.number, part.first), row_id(part.number, part.last)
                asked.append((part.id, connection.execute(query, (*bounds, most))))
        lives = connection.execute(_LIVES, (thread, line[-1].number))
    if lives.fetchone() is None:
        raise NotFound("thread", thread, "`treadle threads` lists those that exist")
    return [decode_entry(row, writer) for writer, rows in asked for row in rows][:most]
