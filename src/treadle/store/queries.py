"""Questions to `log.db`.

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
from .ancestry import MAX_SEQ, Link, Stretch, clip, stretches
from .contract import InboxMessage, OutboxRow, Span, ThreadInfo, Turn
from .rows import (
    cut_of,
    digest_of,
    entry_from,
    message_from,
    outbox_from,
    place,
    thread_from,
    turn_from,
)

__all__ = [
    "blob_data",
    "find_turn",
    "inbox_of",
    "lineage_of",
    "numbered_turn",
    "outbox_rows",
    "ranges_of",
    "rollbacks_of",
    "stretches_of",
    "thread_info",
    "thread_list",
    "thread_number",
    "turns_of",
]

THREADS = """
  SELECT t.id, coalesce(r.id, t.id), p.id, t.cut, t.cwd, t.title, t.created, t.updated,
    t.last, t.turns
  FROM threads t LEFT JOIN threads r ON r.number = t.root LEFT JOIN threads p ON p.number = t.parent
  WHERE t.deleted IS NULL
"""

ENTRIES = """
  SELECT e.id, e.kind, e.item, e.turn, e.step, e.time, e.tokens, e.flags, e.fragments,
    e.provenance, e.events, o.origin, e.source_id, coalesce(e.body, b.data)
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
    """The number under which a living thread's rows are stored."""
    row = connection.execute(
        "SELECT number FROM threads WHERE id = ? AND deleted IS NULL", (thread,)
    ).fetchone()
    if row is None:
        raise _no_thread(thread)
    return int(row[0])


def thread_info(connection: sqlite3.Connection, thread: str) -> ThreadInfo:
    """One living thread."""
    row = connection.execute(f"{THREADS} AND t.id = ?", (thread,)).fetchone()
    if row is None:
        raise _no_thread(thread)
    return thread_from(row)


def thread_list(connection: sqlite3.Connection, limit: int | None) -> list[ThreadInfo]:
    """The living threads, the most recently written first."""
    rows = connection.execute(
        f"{THREADS} ORDER BY t.updated DESC, t.number DESC LIMIT ?", (_limit(limit),)
    )
    return [thread_from(row) for row in rows]


def stretches_of(connection: sqlite3.Connection, thread: str) -> list[Stretch]:
    """Where the rows of a thread's log lie."""
    line = [Link(*row) for row in connection.execute(_LINE, (thread,))]
    if not line:
        raise _no_thread(thread)
    return stretches(line)


def lineage_of(connection: sqlite3.Connection, thread: str) -> list[Span]:
    """Who wrote the entries of a thread's log."""
    last = thread_info(connection, thread).last
    line = clip(stretches_of(connection, thread), 1, last)
    return [Span(stretch.id, stretch.first, stretch.last) for stretch in line]


def ranges_of(
    connection: sqlite3.Connection,
    thread: str,
    ranges: Iterable[tuple[int, int | None]],
    *,
    reverse: bool = False,
    limit: int | None = None,
) -> list[Entry]:
    """The entries of several ranges, in the order given."""
    line = stretches_of(connection, thread)
    query = ENTRIES.format(only="", order="DESC" if reverse else "ASC")
    found: list[Entry] = []
    for first, last in ranges:
        parts = list(clip(line, first, last))
        for part in reversed(parts) if reverse else parts:
            left = None if limit is None else limit - len(found)
            bounds = place(part.number, part.first), place(part.number, part.last)
            rows = connection.execute(query, (*bounds, _limit(left)))
            found += [entry_from(row, part.id) for row in rows]
    return found


def rollbacks_of(connection: sqlite3.Connection, thread: str) -> list[tuple[int, int]]:
    """Where the rollbacks of a thread's log stand, and the first entry that each hides."""
    query = ENTRIES.format(only="AND e.kind = 'rollback'", order="ASC")
    found: list[tuple[int, int]] = []
    for part in stretches_of(connection, thread):
        bounds = place(part.number, part.first), place(part.number, part.last)
        rows = connection.execute(query, (*bounds, _limit(None)))
        found += [cut_of(entry_from(row, part.id)) for row in rows]
    return found


def numbered_turn(connection: sqlite3.Connection, thread: str, number: int) -> Turn:
    """One turn, the thread's own or a shared one."""
    for stretch in stretches_of(connection, thread):
        if stretch.first_turn <= number <= stretch.last_turn:
            at = place(stretch.number, number)
            if row := connection.execute(f"{TURNS} WHERE id = ?", (at,)).fetchone():
                return turn_from(row)
    raise NotFound("turn", number, f"thread {thread!r} has no turn of that number")


def find_turn(connection: sqlite3.Connection, line: Sequence[Stretch], turn: str) -> Turn | None:
    """The turn that was admitted under an id, if any."""
    for stretch in line:
        low = place(stretch.number, stretch.first_turn)
        high = place(stretch.number, stretch.last_turn)
        row = connection.execute(
            f"{TURNS} WHERE thread = ? AND turn = ? AND id BETWEEN ? AND ?",
            (stretch.number, turn, low, high),
        ).fetchone()
        if row is not None:
            return turn_from(row)
    return None


def turns_of(connection: sqlite3.Connection, thread: str, limit: int | None) -> list[Turn]:
    """The newest turns of a thread, oldest first."""
    newest_first = (
        turn_from(row)
        for stretch in reversed(stretches_of(connection, thread))
        for row in connection.execute(
            f"{TURNS} WHERE id BETWEEN ? AND ? ORDER BY id DESC",
            (place(stretch.number, stretch.first_turn), place(stretch.number, stretch.last_turn)),
        )
    )
    return list(islice(newest_first, limit))[::-1]


def blob_data(connection: sqlite3.Connection, digest: str) -> bytes:
    """The bytes under a digest, checked against it."""
    row = connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound("blob", digest, "its last thread may have been deleted")
    data = bytes(row[0])
    if digest_of(data) != digest:
        raise StoreCorrupt(f"the bytes of blob {digest!r} have changed; check the disk they lie on")
    return data


def inbox_of(connection: sqlite3.Connection, thread: str) -> list[InboxMessage]:
    """The messages that wait for a thread, oldest first."""
    number = thread_number(connection, thread)
    rows = connection.execute(
        f"{MESSAGES} WHERE thread = ? AND taken IS NULL ORDER BY number", (number,)
    )
    return [message_from(row, thread) for row in rows]


def outbox_rows(
    connection: sqlite3.Connection, thread: str | None, topic: str | None
) -> list[OutboxRow]:
    """The outbox rows that wait, oldest first."""
    number = None if thread is None else thread_number(connection, thread)
    rows = connection.execute(
        f"{OUTBOX} WHERE (?1 IS NULL OR o.thread = ?1) AND (?2 IS NULL OR o.topic = ?2) "
        "ORDER BY o.number",
        (number, topic),
    )
    return [outbox_from(row) for row in rows]


def _limit(limit: int | None) -> int:
    return MAX_SEQ if limit is None else max(limit, 0)


def _no_thread(thread: str) -> NotFound:
    return NotFound("thread", thread, "`treadle threads` lists those that exist")
