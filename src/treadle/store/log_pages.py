"""Queries of `log.db` for a page.

Owns the SELECTs behind `PagesLog`. Invariant: each runs inside one snapshot that its caller
holds, and uses a key of its table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from ..core.entries import Entry, Kind
from ..core.typed import decode_json
from .contract import Holder, ThreadInfo, Turn
from .log_database import LogDatabase
from .queries import THREADS, TURNS, entries_query, thread_info, thread_ranges
from .rows import RowRange, clip_ranges, decode_entry, decode_thread, decode_turn, row_id

__all__ = [
    "find_family",
    "find_holders",
    "page_threads",
    "page_turns",
    "read_kinds_back",
    "read_told_back",
]


def page_threads(
    connection: LogDatabase, before: tuple[int, str] | None, cwd: str | None, limit: int
) -> list[ThreadInfo]:
    """Return the threads written before that time and thread, the newest first."""
    rows = connection.execute(
        f"{THREADS} AND (CAST(:time AS BIGINT) IS NULL "
        "OR t.updated < :time OR (t.updated = :time AND t.id < :id)) "
        "AND (CAST(:cwd AS TEXT) IS NULL OR t.cwd = :cwd) "
        "ORDER BY t.updated DESC, t.id DESC LIMIT :limit",
        {
            "time": before and before[0],
            "id": before and before[1],
            "cwd": cwd,
            "limit": limit,
        },
    )
    return [decode_thread(row) for row in rows]


def find_family(connection: LogDatabase, thread: str, limit: int) -> list[ThreadInfo]:
    """Return the living threads that share a root with `thread`, the oldest first."""
    root = thread_info(connection, thread).root
    rows = connection.execute(
        f"{THREADS} AND (t.id = :root OR t.root = (SELECT number FROM threads WHERE id = :root))"
        " ORDER BY t.number LIMIT :limit",
        {"root": root, "limit": limit},
    )
    return [decode_thread(row) for row in rows]


def find_holders(connection: LogDatabase, threads: Sequence[str]) -> dict[str, Holder]:
    """Return who said last that it writes these threads."""
    if not threads:
        return {}
    marks = ", ".join("?" * len(threads))
    rows = connection.execute(
        f"SELECT id, holder FROM threads WHERE holder IS NOT NULL AND id IN ({marks})", threads
    )
    return {thread: decode_json(holder, Holder) for thread, holder in rows}


def page_turns(connection: LogDatabase, thread: str, before: int | None, limit: int) -> list[Turn]:
    """Return the newest turns with a number below `before`, oldest first."""
    newest_first = (
        decode_turn(row)
        for part in reversed(thread_ranges(connection, thread))
        for row in connection.execute(
            f"{TURNS} WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?",
            (
                row_id(part.number, part.first_turn),
                row_id(part.number, part.last_turn)
                if before is None
                else row_id(part.number, min(part.last_turn, before - 1)),
                limit,
            ),
        )
    )
    return list(islice(newest_first, limit))[::-1]


def read_kinds_back(
    connection: LogDatabase,
    thread: str,
    kinds: Collection[Kind],
    span: tuple[int, int],
    limit: int,
) -> list[Entry]:
    """Return the newest entries of these kinds; the bodies of others are not read."""
    listed = ", ".join(f"'{kind}'" for kind in sorted(kinds))
    return _back(connection, thread, f"AND e.kind IN ({listed})", span, limit)


def read_told_back(
    connection: LogDatabase, thread: str, span: tuple[int, int], limit: int
) -> list[Entry]:
    """Return the newest entries that tell fragments."""
    return _back(connection, thread, "AND e.fragments IS NOT NULL", span, limit)


def _back(
    connection: LogDatabase, thread: str, only: str, span: tuple[int, int], limit: int
) -> list[Entry]:
    query = entries_query(connection, only=only, order="DESC")
    found: list[Entry] = []
    for part in _newest_first(clip_ranges(thread_ranges(connection, thread), *span)):
        bounds = row_id(part.number, part.first), row_id(part.number, part.last)
        rows = connection.execute(query, (*bounds, limit - len(found)))
        found += [decode_entry(row, part.id) for row in rows]
    return found


def _newest_first(parts: Iterable[RowRange]) -> list[RowRange]:
    return list(parts)[::-1]
