"""Queries of `log.db`.

Owns every SELECT that callers see the answer of. Invariant: each function runs
inside one snapshot that its caller holds, and its cost depends on what it
returns, never on the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ..core.entries import Entry, Kind
from ..core.errors import NotFound, StoreCorrupt
from .contract import InboxMessage, OutboxRow, Span, ThreadInfo, Turn
from .database import LogConnection
from .log_database import LogDatabase
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
from .work import Work

__all__ = [
    "THREADS",
    "TURNS",
    "entries_query",
    "find_damaged",
    "find_rollbacks",
    "find_turn",
    "find_turn_by_id",
    "find_work",
    "list_inbox",
    "list_outbox",
    "list_threads",
    "list_turns",
    "read_blob",
    "read_entries",
    "read_kinds",
    "thread_info",
    "thread_lineage",
    "thread_number",
    "thread_ranges",
    "thread_size",
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


def thread_number(connection: LogDatabase, thread: str) -> int:
    """Return the number under which a living thread's rows are stored."""
    row = connection.execute(
        "SELECT number FROM threads WHERE id = ? AND deleted IS NULL", (thread,)
    ).fetchone()
    if row is None:
        raise _no_thread(thread)
    return int(row[0])


def thread_info(connection: LogDatabase, thread: str) -> ThreadInfo:
    """Return one living thread."""
    row = connection.execute(f"{THREADS} AND t.id = ?", (thread,)).fetchone()
    if row is None:
        raise _no_thread(thread)
    return decode_thread(row)


def thread_size(connection: LogDatabase, thread: str) -> int:
    """Return the bytes of what a thread itself has written."""
    number = thread_number(connection, thread)
    (entries,) = connection.execute(
        "SELECT coalesce(sum(length(body)), 0) FROM entries WHERE id BETWEEN ? AND ?",
        (row_id(number, 0), row_id(number + 1, 0) - 1),
    ).fetchone()
    (blobs,) = connection.execute(
        "SELECT coalesce(sum(length(b.data)), 0) FROM blob_users u "
        "JOIN blobs b ON b.number = u.blob WHERE u.thread = ?",
        (number,),
    ).fetchone()
    return int(entries + blobs)


def list_threads(connection: LogDatabase, limit: int | None) -> list[ThreadInfo]:
    """Return the living threads, the most recently written first."""
    rows = connection.execute(
        f"{THREADS} ORDER BY t.updated DESC, t.number DESC LIMIT ?", (_limit(limit),)
    )
    return [decode_thread(row) for row in rows]


def thread_ranges(connection: LogDatabase, thread: str) -> list[RowRange]:
    """Return the row ranges of a thread's log."""
    line = [Link(*row) for row in connection.execute(_LINE, (thread,))]
    if not line:
        raise _no_thread(thread)
    return row_ranges(line)


def thread_lineage(connection: LogDatabase, thread: str) -> list[Span]:
    """Return who wrote the entries of a thread's log."""
    last = thread_info(connection, thread).last
    line = clip_ranges(thread_ranges(connection, thread), 1, last)
    return [Span(part.id, part.first, part.last) for part in line]


def read_entries(
    connection: LogDatabase,
    thread: str,
    ranges: Iterable[tuple[int, int | None]],
    *,
    reverse: bool = False,
    limit: int | None = None,
) -> list[Entry]:
    """Return the entries of several ranges, in the order given."""
    line = thread_ranges(connection, thread)
    query = entries_query(connection, order="DESC" if reverse else "ASC")
    found: list[Entry] = []
    for first, last in ranges:
        parts = list(clip_ranges(line, first, last))
        for part in reversed(parts) if reverse else parts:
            left = None if limit is None else limit - len(found)
            bounds = row_id(part.number, part.first), row_id(part.number, part.last)
            rows = connection.execute(query, (*bounds, _limit(left)))
            found += [decode_entry(row, part.id) for row in rows]
    return found


def read_kinds(
    connection: LogDatabase, thread: str, kinds: Iterable[Kind], first: int, limit: int
) -> list[Entry]:
    """Return the first entries of these kinds; the bodies of others are not read."""
    listed = ", ".join(f"'{kind}'" for kind in sorted(kinds))
    query = entries_query(connection, only=f"AND e.kind IN ({listed})")
    found: list[Entry] = []
    for part in clip_ranges(thread_ranges(connection, thread), first, None):
        bounds = row_id(part.number, part.first), row_id(part.number, part.last)
        rows = connection.execute(query, (*bounds, _limit(limit - len(found))))
        found += [decode_entry(row, part.id) for row in rows]
    return found


def entries_query(connection: LogDatabase, *, only: str = "", order: str = "ASC") -> str:
    """Return the query for a range of entries; those of an old log have no checksums."""
    checked = not isinstance(connection, LogConnection) or connection.layout >= CHECKSUMS
    return ENTRIES.format(only=only, order=order, checksum="e.checksum" if checked else "NULL")


def find_damaged(connection: LogDatabase) -> list[str]:
    """Return what is not as it was written: entries by their checksums, blobs by their digests."""
    threads = dict(connection.execute("SELECT number, id FROM threads"))
    entries = connection.execute(entries_query(connection), (0, MAX_ROW, MAX_ROW))
    found = [
        f"entry {row[0] & MAX_SEQ} of thread {threads.get(row[0] >> 32, row[0] >> 32)}"
        for row in entries
        if not is_whole(row)
    ]
    blobs = connection.execute("SELECT digest, data FROM blobs")
    return found + [f"blob {digest}" for digest, data in blobs if blob_digest(data) != digest]


def find_rollbacks(connection: LogDatabase, thread: str) -> list[tuple[int, int]]:
    """Return the rollbacks of a thread's log, and the first entry that each hides."""
    query = entries_query(connection, only="AND e.kind = 'rollback'")
    found: list[tuple[int, int]] = []
    for part in thread_ranges(connection, thread):
        bounds = row_id(part.number, part.first), row_id(part.number, part.last)
        rows = connection.execute(query, (*bounds, _limit(None)))
        found += [rollback_cut(decode_entry(row, part.id)) for row in rows]
    return found


def find_turn(connection: LogDatabase, thread: str, number: int) -> Turn:
    """Return one turn by its number, the thread's own or a shared one."""
    for part in thread_ranges(connection, thread):
        if part.first_turn <= number <= part.last_turn:
            at = row_id(part.number, number)
            if row := connection.execute(f"{TURNS} WHERE id = ?", (at,)).fetchone():
                return decode_turn(row)
    raise NotFound("turn", number, f"thread {thread!r} has no turn with that number")


def find_turn_by_id(connection: LogDatabase, line: Sequence[RowRange], turn: str) -> Turn | None:
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


def list_turns(connection: LogDatabase, thread: str, limit: int | None) -> list[Turn]:
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


def read_blob(connection: LogDatabase, digest: str) -> bytes:
    """Return the bytes under a digest, checked against it."""
    row = connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound("blob", digest, "its last thread may have been deleted")
    data = bytes(row[0])
    if blob_digest(data) != digest:
        raise StoreCorrupt(f"the bytes of blob {digest!r} have changed; check the disk they lie on")
    return data


def list_inbox(connection: LogDatabase, thread: str) -> list[InboxMessage]:
    """Return the messages that wait for a thread, oldest first."""
    number = thread_number(connection, thread)
    rows = connection.execute(
        f"{MESSAGES} WHERE thread = ? AND taken IS NULL ORDER BY number", (number,)
    )
    return [decode_message(row, thread) for row in rows]


def list_outbox(connection: LogDatabase, thread: str | None, topic: str | None) -> list[OutboxRow]:
    """Return the outbox rows that wait, oldest first."""
    number = None if thread is None else thread_number(connection, thread)
    rows = connection.execute(
        f"{OUTBOX} WHERE (CAST(:thread AS BIGINT) IS NULL OR o.thread = :thread) "
        "AND (CAST(:topic AS TEXT) IS NULL OR o.topic = :topic) ORDER BY o.number",
        {"thread": number, "topic": topic},
    )
    return [decode_outbox_row(row) for row in rows]


def _limit(limit: int | None) -> int:
    return MAX_SEQ if limit is None else max(limit, 0)


def _no_thread(thread: str) -> NotFound:
    return NotFound("thread", thread, "`treadle threads` lists those that exist")


def find_work(connection: LogDatabase) -> Iterator[tuple[Work, bool]]:
    """Yield the threads with work, the longest waiting first, and whether a holder is named."""
    for thread, held, since, turn in connection.execute(_WORK):
        yield Work(thread=thread, since=since, turn=turn or ""), bool(held)


_WORK = """
  SELECT t.id, t.holder IS NOT NULL, min(w.since) AS since, max(w.turn) FROM (
    SELECT thread, admitted AS since, turn FROM turns WHERE ended IS NULL
    UNION ALL
    SELECT thread, time, NULL FROM inbox WHERE taken IS NULL AND kind = 'input'
  ) w JOIN threads t ON t.number = w.thread
  WHERE t.deleted IS NULL GROUP BY t.number ORDER BY since, t.number
"""
