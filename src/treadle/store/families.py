"""Threads as a family: how they start, fork and are forgotten.

Owns the rows of `threads` and what must go when one is deleted. Invariant: an
entry, turn or blob stays exactly as long as a living thread's log contains it.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator

from ..core.errors import IllegalCut
from ..core.ids import new_id
from .ancestry import Link, stretches
from .contract import ThreadInfo
from .queries import stretches_of, thread_info, thread_number
from .rows import place

__all__ = ["create_thread", "delete_thread", "fork_thread"]


def create_thread(connection: sqlite3.Connection, cwd: str, title: str, now: int) -> ThreadInfo:
    """A thread of its own."""
    thread = new_id("thr")
    connection.execute(
        "INSERT INTO threads (id, cwd, title, created, updated) VALUES (?, ?, ?, ?, ?)",
        (thread, cwd, title, now, now),
    )
    return thread_info(connection, thread)


def fork_thread(
    connection: sqlite3.Connection, parent: str, cut: int, title: str, now: int
) -> ThreadInfo:
    """A thread that goes on after entry `cut` of another."""
    info = thread_info(connection, parent)
    if not 0 <= cut <= info.last:
        raise IllegalCut(
            f"cannot fork thread {parent!r} at entry {cut}; it has entries 1 to {info.last}"
        )
    turns = _turns_before(connection, parent, cut)
    thread = new_id("thr")
    connection.execute(
        "INSERT INTO threads (id, root, parent, cut, turn_cut, cwd, title, created, updated, "
        "last, turns) SELECT ?1, coalesce(root, number), number, ?2, ?3, cwd, ?4, ?5, "
        "max(?5, updated), ?2, ?3 FROM threads WHERE id = ?6",
        (thread, cut, turns, title, now, parent),
    )
    return thread_info(connection, thread)


def _turns_before(connection: sqlite3.Connection, thread: str, cut: int) -> int:
    """The number of the newest turn that has begun at entry `cut`."""
    for stretch in reversed(stretches_of(connection, thread)):
        low = place(stretch.number, stretch.first_turn)
        high = place(stretch.number, stretch.last_turn)
        row = connection.execute(
            "SELECT id FROM turns WHERE id BETWEEN ? AND ? AND first <= ? ORDER BY id DESC LIMIT 1",
            (low, high, cut),
        ).fetchone()
        if row is not None:
            return int(row[0]) - place(stretch.number, 0)
    return 0


def delete_thread(connection: sqlite3.Connection, thread: str, now: int) -> None:
    """Mark a thread deleted and purge what no living thread's log contains."""
    number = thread_number(connection, thread)
    connection.execute(
        "UPDATE threads SET deleted = ?, holder = NULL, cwd = '', title = '' WHERE number = ?",
        (now, number),
    )
    connection.execute("DELETE FROM inbox WHERE thread = ?", (number,))
    connection.execute("DELETE FROM outbox WHERE thread = ?", (number,))
    _purge_family(connection, number)


def _purge_family(connection: sqlite3.Connection, member: int) -> None:
    family = {
        row[0]: (Link(*row[:5]), row[5] is not None)
        for row in connection.execute(
            "SELECT t.number, t.id, t.parent, t.cut, t.turn_cut, t.deleted FROM threads t, "
            "(SELECT coalesce(root, number) AS head FROM threads WHERE number = ?) "
            "WHERE t.number = head OR t.root = head",
            (member,),
        )
    }
    seqs: dict[int, int] = defaultdict(int)
    turns: dict[int, int] = defaultdict(int)
    links = {number: link for number, (link, _) in family.items()}
    for number, (_, deleted) in family.items():
        for stretch in () if deleted else stretches(_upwards(links, number)):
            seqs[stretch.number] = max(seqs[stretch.number], stretch.last)
            turns[stretch.number] = max(turns[stretch.number], stretch.last_turn)
    # Children were made after their parents, and must go before them.
    for number in sorted((n for n, (_, deleted) in family.items() if deleted), reverse=True):
        _trim(connection, number, seqs[number], turns[number])


def _upwards(links: dict[int, Link], number: int) -> Iterator[Link]:
    at: int | None = number
    while at is not None:
        yield links[at]
        at = links[at].parent


def _trim(connection: sqlite3.Connection, number: int, seq: int, turn: int) -> None:
    """Drop what a deleted thread holds beyond entry `seq` and turn `turn`."""
    end = place(number + 1, 0)
    connection.execute("DELETE FROM entries WHERE id > ? AND id < ?", (place(number, seq), end))
    connection.execute("DELETE FROM turns WHERE id > ? AND id < ?", (place(number, turn), end))
    freed = connection.execute(
        "DELETE FROM blob_users WHERE thread = ? AND seq > ? RETURNING blob", (number, seq)
    ).fetchall()
    connection.executemany(
        "DELETE FROM blobs WHERE number = ?1 "
        "AND NOT EXISTS (SELECT 1 FROM blob_users WHERE blob = ?1)",
        freed,
    )
    connection.execute(
        "DELETE FROM threads WHERE number = ?1 "
        "AND NOT EXISTS (SELECT 1 FROM threads WHERE parent = ?1)",
        (number,),
    )
