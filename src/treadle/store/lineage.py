"""The life of threads in `log.db`: how they are created, forked and deleted.

Owns what a fork shares with its parent, and what is purged. Invariants: each function runs
inside one savepoint of the writer, so that whatever raises leaves no row behind; an entry, turn
or blob stays exactly as long as a living thread's log contains it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec.structs import replace

from ..core.errors import IllegalCut
from ..core.ids import new_id
from .contract import ENDED_STATES, ThreadInfo
from .log_database import LogDatabase
from .queries import find_turn, thread_info, thread_number, thread_ranges
from .rows import INSERT_TURN, Link, row_id, row_ranges, turn_row

__all__ = ["create_thread", "delete_thread", "fork_thread", "purge_family"]


def create_thread(
    connection: LogDatabase, cwd: str, title: str, now: int, *, thread: str | None = None
) -> ThreadInfo:
    """Create an empty thread, under an id that was chosen before or a new one."""
    thread = thread or new_id("thr")
    connection.execute(
        "INSERT INTO threads (id, cwd, title, created, updated) VALUES (?, ?, ?, ?, ?)",
        (thread, cwd, title, now, now),
    )
    return thread_info(connection, thread)


def fork_thread(
    connection: LogDatabase,
    parent: str,
    cut: int,
    title: str,
    now: int,
    *,
    thread: str | None = None,
) -> ThreadInfo:
    """Create a thread that goes on after entry `cut` of another."""
    info = thread_info(connection, parent)
    if not 0 <= cut <= info.last:
        raise IllegalCut(
            f"cannot fork thread {parent!r} at entry {cut}; it has entries 1 to {info.last}"
        )
    turns = _turns_before(connection, parent, cut)
    unended = _first_open_turn(connection, parent, turns)
    thread = thread or new_id("thr")
    connection.execute(
        "INSERT INTO threads (id, root, parent, cut, turn_cut, cwd, title, created, updated, "
        "last, turns) SELECT :id, coalesce(root, number), number, :cut, :shared, cwd, :title, "
        ":now, :updated, :cut, :turns FROM threads WHERE id = :parent",
        {
            "id": thread,
            "cut": cut,
            "shared": turns if unended is None else unended - 1,
            "turns": turns,
            "title": title,
            "now": now,
            "updated": max(now, info.updated),
            "parent": parent,
        },
    )
    if unended is not None:
        _copy_turns(connection, parent, thread, range(unended, turns + 1), now)
    return thread_info(connection, thread)


def _first_open_turn(connection: LogDatabase, thread: str, last: int) -> int | None:
    """Return the first turn up to number `last` that nobody has ended."""
    for part in thread_ranges(connection, thread):
        row = connection.execute(
            "SELECT id FROM turns WHERE thread = ? AND ended IS NULL AND id BETWEEN ? AND ? "
            "ORDER BY id LIMIT 1",
            (
                part.number,
                row_id(part.number, part.first_turn),
                row_id(part.number, min(part.last_turn, last)),
            ),
        ).fetchone()
        if row is not None:
            return int(row[0]) - row_id(part.number, 0)
    return None


def _copy_turns(connection: LogDatabase, parent: str, fork: str, numbers: range, now: int) -> None:
    """Give a fork turns of its own where its parent's are open; there nobody goes on with them."""
    thread = thread_number(connection, fork)
    for number in numbers:
        turn = find_turn(connection, parent, number)
        if turn.state not in ENDED_STATES:
            turn = replace(turn, state="aborted", ended=max(now, turn.admitted))
        connection.execute(INSERT_TURN, turn_row(thread, turn))


def _turns_before(connection: LogDatabase, thread: str, cut: int) -> int:
    """Return the number of the newest turn that has begun at entry `cut`."""
    for part in reversed(thread_ranges(connection, thread)):
        low = row_id(part.number, part.first_turn)
        high = row_id(part.number, part.last_turn)
        row = connection.execute(
            "SELECT id FROM turns WHERE id BETWEEN ? AND ? AND first <= ? ORDER BY id DESC LIMIT 1",
            (low, high, cut),
        ).fetchone()
        if row is not None:
            return int(row[0]) - row_id(part.number, 0)
    return 0


def delete_thread(connection: LogDatabase, thread: str, now: int) -> None:
    """Mark a thread deleted and purge what no living thread's log contains."""
    number = thread_number(connection, thread)
    connection.execute(
        "UPDATE threads SET deleted = ?, holder = NULL, cwd = '', title = '' WHERE number = ?",
        (now, number),
    )
    connection.execute("DELETE FROM inbox WHERE thread = ?", (number,))
    connection.execute("DELETE FROM outbox WHERE thread = ?", (number,))
    purge_family(connection, number)


def purge_family(connection: LogDatabase, member: int) -> None:
    """Purge what no living thread's log contains, of the family of a thread."""
    family = {
        row[0]: (Link(*row[:5]), row[5] is not None)
        for row in connection.execute(
            "SELECT t.number, t.id, t.parent, t.cut, t.turn_cut, t.deleted FROM threads t, "
            "(SELECT coalesce(root, number) AS head FROM threads WHERE number = ?) AS family "
            "WHERE t.number = head OR t.root = head",
            (member,),
        )
    }
    seqs: dict[int, int] = defaultdict(int)
    turns: dict[int, int] = defaultdict(int)
    links = {number: link for number, (link, _) in family.items()}
    for number, (_, deleted) in family.items():
        for part in () if deleted else row_ranges(_ancestors(links, number)):
            seqs[part.number] = max(seqs[part.number], part.last)
            turns[part.number] = max(turns[part.number], part.last_turn)
    # Children were made after their parents, and must be deleted before them.
    for number in sorted((n for n, (_, deleted) in family.items() if deleted), reverse=True):
        _delete_beyond(connection, number, seqs[number], turns[number])


def _ancestors(links: dict[int, Link], number: int) -> Iterator[Link]:
    at: int | None = number
    while at is not None:
        yield links[at]
        at = links[at].parent


def _delete_beyond(connection: LogDatabase, number: int, seq: int, turn: int) -> None:
    """Delete what a deleted thread holds beyond entry `seq` and turn `turn`."""
    end = row_id(number + 1, 0)
    connection.execute("DELETE FROM entries WHERE id > ? AND id < ?", (row_id(number, seq), end))
    connection.execute("DELETE FROM turns WHERE id > ? AND id < ?", (row_id(number, turn), end))
    freed = connection.execute(
        "DELETE FROM blob_users WHERE thread = ? AND seq > ? RETURNING blob", (number, seq)
    ).fetchall()
    connection.executemany(
        "DELETE FROM blobs WHERE number = ? "
        "AND NOT EXISTS (SELECT 1 FROM blob_users WHERE blob = blobs.number)",
        freed,
    )
    connection.execute(
        "DELETE FROM threads WHERE number = :number "
        "AND NOT EXISTS (SELECT 1 FROM threads WHERE parent = :number)",
        {"number": number},
    )
