"""Queries of `log.db`.

Owns every SELECT that callers see the answer of. Invariant: each function runs
inside one snapshot that its caller holds, and its cost depends on what it
returns, never on the length of the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import islice

from ..core.entries import Entry
from ..core.errors import NotFound, StoreCorrupt
from .contract import InboxMessage, OutboxRow, Span, ThreadInfo, Turn
from .database import LogConnection
from .migrations import CHECKSUMS
from .rows import (
    MAX_SEQ,
    Link,
    RowRange,
    blob_digest,
    clip_ranges,
    decode_entry,
    decode_message,
    decode_outbox_row,
    decode_thread,
    decode_turn,
    is_whole,
    rollback_cut,
    row_id,
    row_ranges,
)

__all__ = [
    "find_damaged",
    "find_rollbacks",
    "find_turn",
    "find_turn_by_id",
    "list_inbox",
    "list_outbox",
    "list_threads",
    "list_turns",
    "read_blob",
    "read_entries",
    "thread_info",
    "thread_lineage",
    "thread_number",
    "thread_ranges",
]

MAX_ROW = (1 << 63) - 1
"""The highest row id, and more rows than there are."""

THREADS = """
  SELECT t.id, coalesce(r.id, t.id), p.id, t.cut, t.cwd, t.title, t.created, t.updated,
    t.last, t.turns
  FROM threads t LEFT JOIN threads r ON r.number = t.root LEFT JOIN threads p ON p.number = t.parent
  WHERE t.deleted IS NULL
"""

ENTRIES = """
  SELECT e.id, e.kind, e.item, e.turn, e.step, e.time, e.tokens, e.flags, e.fragments,
    e.provenance, e.events, o.origin, e.source_id, coalesce(e.body, b.data), {checksum}
  FROM entries e LEFT JOIN origins o ON o.number = e.origin LEFT JOIN blobs b ON b.number = e.blob
  WHERE e.id BETWEEN ? AND ? {only} ORDER BY e.id {order} LIMIT ?
"""

TURNS = "SELECT turn, id, input, state, admitted, first, ended, outcome, usage FROM turns"

MESSAGES = "SELECT number, key, kind, time, provenance, events, body FROM inbox"

OUTBOX = """
  SELECT o.number, t.id, o.topic, o.key, o.body, o.state, o.attempts, o.error, o.created, o.updated
  FROM outbox o JOIN threads t ON t.number = o.thread
"""

_LINE = """
  WITH RECURSIVE line (number, id, parent, cut, turn_cut, depth) AS (
    SELECT number, id, parent, cut, turn_cut, 0 FROM threads WHERE id = ? AND deleted IS NULL
    UNION ALL
    SELECT t.number, t.id, t.parent, t.cut, t.turn_cut, depth + 1
    FROM line JOIN threads t ON t.number = line.parent
  )
  SELECT number, id, parent, cut, turn_cut FROM line ORDER BY depth
"""


def thread_number(connection: sqlite3.Connection, thread: str) -> int:
    """Return the number under which a living thread's rows are stored."""
    row = connection.execute(
        "SELECT number FROM threads WHERE id = ? AND deleted IS NULL", (thread,)
    ).fetchone()
    if row is None:
        raise _no_thread(thread)
    return int(row[0])


def thread_info(connection: sqlite3.Connection, thread: str) -> ThreadInfo:
    """Return one living thread."""
    row = connection.execute(f"{THREADS} AND t.id = ?", (thread,)).fetchone()
    if row is None:
        raise _no_thread(thread)
    return decode_thread(row)


def list_threads(connection: sqlite3.Connection, limit: int | None) -> list[ThreadInfo]:
    """Return the living threads, the most recently written first."""
    rows = connection.execute(
        f"{THREADS} ORDER BY t.updated DESC, t.number DESC LIMIT ?", (_limit(limit),)
    )
    return [decode_thread(row) for row in rows]


def thread_ranges(connection: sqlite3.Connection, thread: str) -> list[RowRange]:
    """Return the row ranges of a thread's log."""
    line = [Link(*row) for row in connection.execute(_LINE, (thread,))]
    if not line:
        raise _no_thread(thread)
    return row_ranges(line)


def thread_lineage(connection: sqlite3.Connection, thread: str) -> list[Span]:
    """Return who wrote the entries of a thread's log."""
    last = thread_info(connection, thread).last
    line = clip_ranges(thread_ranges(connection, thread), 1, last)
    return [Span(part.id, part.first, part.last) for part in line]


def read_entries(
    connection: sqlite3.Connection,
    thread: str,
    ranges: Iterable[tuple[int, int | None]],
    *,
    reverse: bool = False,
    limit: int | None = None,
) -> list[Entry]:
    """Return the entries of several ranges, in the order given."""
    line = thread_ranges(connection, thread)
    query = _entries_query(connection, order="DESC" if reverse else "ASC")
    found: list[Entry] = []
    for first, last in ranges:
        parts = list(clip_ranges(line, first, last))
        for part in reversed(parts) if reverse else parts:
            left = None if limit is None else limit - len(found)
            bounds = row_id(part.number, part.first), row_id(part.number, part.last)
            rows = connection.execute(query, (*bounds, _limit(left)))
            found += [decode_entry(row, part.id) for row in rows]
    return found


def _entries_query(connection: sqlite3.Connection, *, only: str = "", order: str = "ASC") -> str:
    """Return the query for a range of entries; those of an old log have no checksums."""
    checked = not isinstance(connection, LogConnection) or connection.layout >= CHECKSUMS
    return ENTRIES.format(only=only, order=order, checksum="e.checksum" if checked else "NULL")


def find_damaged(connection: sqlite3.Connection) -> list[str]:
    """Return what is not as it was written: entries by their checksums, blobs by their digests."""
    threads = dict(connection.execute("SELECT number, id FROM threads"))
    entries = connection.execute(_entries_query(connection), (0, MAX_ROW, MAX_ROW))
    found = [
        f"entry {row[0] & MAX_SEQ} of thread {threads.get(row[0] >> 32, row[0] >> 32)}"
        for row in entries
        if not is_whole(row)
    ]
    blobs = connection.execute("SELECT digest, data FROM blobs")
    return found + [f"blob {digest}" for digest, data in blobs if blob_digest(data) != digest]


def find_rollbacks(connection: sqlite3.Connection, thread: str) -> list[tuple[int, int]]:
    """Return the rollbacks of a thread's log, and the first entry that each hides."""
    query = _entries_query(connection, only="AND e.kind = 'rollback'")
    found: list[tuple[int, int]] = []
    for part in thread_ranges(connection, thread):
        bounds = row_id(part.number, part.first), row_id(part.number, part.last)
        rows = connection.execute(query, (*bounds, _limit(None)))
        found += [rollback_cut(decode_entry(row, part.id)) for row in rows]
    return found


def find_turn(connection: sqlite3.Connection, thread: str, number: int) -> Turn:
    """Return one turn by its number, the thread's own or a shared one."""
    for part in thread_ranges(connection, thread):
        if part.first_turn <= number <= part.last_turn:
            at = row_id(part.number, number)
            if row := connection.execute(f"{TURNS} WHERE id = ?", (at,)).fetchone():
                return decode_turn(row)
    raise NotFound("turn", number, f"thread {thread!r} has no turn with that number")


def find_turn_by_id(
    connection: sqlite3.Connection, line: Sequence[RowRange], turn: str
) -> Turn | None:
    """Return the turn that was admitted under an id, if any."""
    for part in line:
        low = row_id(part.number, part.first_turn)
        high = row_id(part.number, part.last_turn)
        row = connection.execute(
            f"{TURNS} WHERE thread = ? AND turn = ? AND id BETWEEN ? AND ?",
            (part.number, turn, low, high),
        ).fetchone()
        if row is not None:
            return decode_turn(row)
    return None


def list_turns(connection: sqlite3.Connection, thread: str, limit: int | None) -> list[Turn]:
    """Return the newest turns of a thread, oldest first."""
    newest_first = (
        decode_turn(row)
        for part in reversed(thread_ranges(connection, thread))
        for row in connection.execute(
            f"{TURNS} WHERE id BETWEEN ? AND ? ORDER BY id DESC",
            (row_id(part.number, part.first_turn), row_id(part.number, part.last_turn)),
        )
    )
    return list(islice(newest_first, limit))[::-1]


def read_blob(connection: sqlite3.Connection, digest: str) -> bytes:
    """Return the bytes under a digest, checked against it."""
    row = connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound("blob", digest, "its last thread may have been deleted")
    data = bytes(row[0])
    if blob_digest(data) != digest:
        raise StoreCorrupt(f"the bytes of blob {digest!r} have changed; check the disk they lie on")
    return data


def list_inbox(connection: sqlite3.Connection, thread: str) -> list[InboxMessage]:
    """Return the messages that wait for a thread, oldest first."""
    number = thread_number(connection, thread)
    rows = connection.execute(
        f"{MESSAGES} WHERE thread = ? AND taken IS NULL ORDER BY number", (number,)
    )
    return [decode_message(row, thread) for row in rows]


def list_outbox(
    connection: sqlite3.Connection, thread: str | None, topic: str | None
) -> list[OutboxRow]:
    """Return the outbox rows that wait, oldest first."""
    number = None if thread is None else thread_number(connection, thread)
    rows = connection.execute(
        f"{OUTBOX} WHERE (:thread IS NULL OR o.thread = :thread) "
        "AND (:topic IS NULL OR o.topic = :topic) ORDER BY o.number",
        {"thread": number, "topic": topic},
    )
    return [decode_outbox_row(row) for row in rows]


def _limit(limit: int | None) -> int:
    return MAX_SEQ if limit is None else max(limit, 0)


def _no_thread(thread: str) -> NotFound:
    return NotFound("thread", thread, "`treadle threads` lists those that exist")
