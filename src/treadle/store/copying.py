"""Copying threads from one store into another, row by row.

Owns how the rows of a family get other numbers and stay what they are: ids, times, turns, bytes.
Invariants: while a family is copied it cannot be seen, so that one that was not finished is only
debris, which the next try removes; and a row that is damaged is not copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct

from ..core.errors import StoreCorrupt, StoreError
from .lineage import purge_family
from .log_database import LogDatabase
from .queries import entries_query, thread_number
from .rows import INSERT_TURN, MAX_SEQ, Row, entry_checksum, is_whole, row_id
from .updates import INLINE_BYTES, INSERT_ENTRY, store_blob, store_origin

__all__ = [
    "CopiedThread",
    "CopiesRows",
    "ThreadRest",
    "copy_rows",
    "find_family_rows",
    "finish",
    "prepare",
    "read_rest",
    "write_entries",
    "write_rest",
]

T = TypeVar("T")
RowJob: TypeAlias = Callable[[LogDatabase], T]

_PAGE = 200
_FAMILY = """
  SELECT t.number, t.id, t.root, t.parent, t.cut, t.turn_cut, t.cwd, t.title, t.created, t.updated,
    t.last, t.turns, t.deleted
  FROM threads t WHERE t.number = :head OR t.root = :head ORDER BY t.number
"""
_INBOX = "thread, key, kind, time, taken, provenance, events, body"
_OUTBOX = "thread, topic, key, state, attempts, error, created, updated, body"


@runtime_checkable
class CopiesRows(Protocol):
    """A store whose rows can be copied as they are; ours that last have the same tables."""

    async def read_rows(self, job: RowJob[T]) -> T:
        """Return what a job finds, in one snapshot."""
        ...

    async def write_rows(self, job: RowJob[T]) -> T:
        """Return the result of a job in one durable transaction; it may be done twice."""
        ...


class CopiedThread(Struct, frozen=True):
    """The row of a thread in the store that it is copied from."""

    number: int
    id: str
    root: int | None
    parent: int | None
    cut: int
    turn_cut: int
    cwd: str
    title: str
    created: int
    updated: int
    last: int
    turns: int
    deleted: int | None


def find_family_rows(connection: LogDatabase, thread: str) -> list[CopiedThread]:
    """Return the family of a thread, parents first; what was deleted is still shared by others."""
    head = "SELECT coalesce(root, number) FROM threads WHERE number = ?"
    (number,) = connection.execute(head, (thread_number(connection, thread),)).fetchone()
    return [CopiedThread(*row) for row in connection.execute(_FAMILY, {"head": number})]


def prepare(connection: LogDatabase, family: list[CopiedThread], now: int) -> dict[int, int]:
    """Make the rows of threads, not to be seen yet; return their new numbers by their old ones."""
    known = "SELECT number, deleted FROM threads WHERE id = ?"
    for each in family:
        row = connection.execute(known, (each.id,)).fetchone()
        if row is not None and row[1] is None:
            raise StoreError(
                f"thread {each.id!r} is in the other store already; delete it in one of them"
            )
        if row is not None:  # a copy that was not finished
            purge_family(connection, row[0])
    numbers: dict[int, int] = {}
    for each in family:
        connection.execute(
            "INSERT INTO threads (id, root, parent, cut, turn_cut, cwd, title, created, updated, "
            "last, turns, deleted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                each.id,
                None if each.root is None else numbers[each.root],
                None if each.parent is None else numbers[each.parent],
                *(each.cut, each.turn_cut, each.cwd, each.title, each.created, each.updated),
                *(each.last, each.turns, now),
            ),
        )
        row = connection.execute("SELECT number FROM threads WHERE id = ?", (each.id,)).fetchone()
        numbers[each.number] = int(row[0])
    return numbers


def finish(connection: LogDatabase, family: list[CopiedThread]) -> None:
    """Let the copied threads be seen."""
    for each in family:
        connection.execute("UPDATE threads SET deleted = ? WHERE id = ?", (each.deleted, each.id))


def copy_rows(number: int, after: int) -> RowJob[tuple[int, list[Row]]]:
    """Return a job that reads entries of a thread after one; it returns the last and the rows."""

    def read(connection: LogDatabase) -> tuple[int, list[Row]]:
        bounds = row_id(number, after + 1), row_id(number, MAX_SEQ)
        rows = connection.execute(entries_query(connection), (*bounds, _PAGE)).fetchall()
        for row in rows:
            if not is_whole(row):
                raise StoreCorrupt(
                    f"entry {row[0] & MAX_SEQ} is damaged, so its thread cannot be copied; "
                    "continue the thread before it with `treadle fork --at`"
                )
        return (rows[-1][0] & MAX_SEQ if rows else 0), rows

    return read


def write_entries(number: int, rows: list[Row]) -> RowJob[None]:
    """Return a job that writes entries that `copy_rows` has read."""

    def write(connection: LogDatabase) -> None:
        for row in rows:
            seq, body = row[0] & MAX_SEQ, row[13]
            at = row_id(number, seq)
            blob = None
            if body is not None and len(body) > INLINE_BYTES:
                blob = store_blob(connection, number, seq, body)
            origin = None if row[11] is None else store_origin(connection, row[11])
            checksum = entry_checksum((at, *row[1:13]), body)
            kept = body if blob is None else None
            connection.execute("DELETE FROM entries WHERE id = ?", (at,))
            connection.execute(
                INSERT_ENTRY, (at, *row[1:11], origin, row[12], blob, kept, checksum)
            )

    return write


class ThreadRest(Struct):
    """What belongs to a thread besides its entries."""

    turns: list[Row]
    inbox: list[Row]
    outbox: list[Row]
    blobs: list[Row]


def read_rest(number: int) -> RowJob[ThreadRest]:
    """Return a job that reads the rest of a thread; of blobs only their digests."""

    def read(connection: LogDatabase) -> ThreadRest:
        def rows(sql: str) -> list[Any]:
            return connection.execute(sql, (number,)).fetchall()

        return ThreadRest(
            turns=rows(
                "SELECT id, turn, first, state, admitted, ended, outcome, usage, input "
                "FROM turns WHERE thread = ? ORDER BY id"
            ),
            inbox=rows(f"SELECT {_INBOX} FROM inbox WHERE thread = ? ORDER BY number"),
            outbox=rows(f"SELECT {_OUTBOX} FROM outbox WHERE thread = ? ORDER BY number"),
            blobs=rows(
                "SELECT b.digest, u.seq FROM blob_users u JOIN blobs b ON b.number = u.blob "
                "WHERE u.thread = ?"
            ),
        )

    return read


def write_rest(number: int, rest: ThreadRest, *, waiting: bool) -> RowJob[None]:
    """Return a job that writes the rest of a thread; with `waiting` also what is still to do."""

    def write(connection: LogDatabase) -> None:
        for table in ("turns", "inbox", "outbox"):
            connection.execute(f"DELETE FROM {table} WHERE thread = ?", (number,))
        turns = [(row_id(number, row[0] & MAX_SEQ), number, *row[1:]) for row in rest.turns]
        connection.executemany(INSERT_TURN, turns)
        inbox = [row for row in rest.inbox if waiting or row[4] is not None]
        for table, columns, rows in (
            ("inbox", _INBOX, inbox),
            ("outbox", _OUTBOX, rest.outbox if waiting else []),
        ):
            marks = ", ".join("?" * (columns.count(",") + 1))
            connection.executemany(
                f"INSERT INTO {table} ({columns}) VALUES ({marks})",
                [(number, *row[1:]) for row in rows],
            )

    return write
