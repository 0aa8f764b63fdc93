"""The library: the summaries of all threads, the jobs to write them, and notes.

Owns what is stored in ``lossless.db``. Invariants: a node never changes once it is
stored; a job belongs to one worker at a time and is free again when its lease runs out;
what is lost with the file can be made again from the log, except notes; and what cannot
have changed since it was read is not read again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from ...core.wire import json_bytes
from .nodes import SummaryNode
from .recalled_rows import RecalledEntry, delete_recalled, read_recalled, write_recalled
from .sqlite_file import SqliteFile

__all__ = [
    "LEASE_MS",
    "LONGEST_WAIT_MS",
    "MOST_THREADS",
    "Library",
    "Note",
    "RecentThreads",
    "SummaryJob",
    "delete_thread",
    "insert_node",
]

LEASE_MS = 300_000
"""How long a job belongs to the worker that took it."""
LONGEST_WAIT_MS = 1_800_000
"""How long a job that failed waits at most; the clock jumped where one seems to wait longer."""
MOST_THREADS = 256
"""How many threads are remembered."""
_TABLES_BY_THREAD = ("nodes", "jobs", "turns", "notes", "told")


class SummaryJob(Struct, frozen=True, kw_only=True):
    """A summary that a model should write."""

    key: str
    thread: str
    first: int
    last: int
    depth: int = 0
    attempts: int = 0
    error: str | None = None


class Note(Struct, frozen=True, kw_only=True):
    """A note that an agent wrote for itself."""

    name: str
    text: str
    time: int


V = TypeVar("V")

_node_decoder = msgspec.msgpack.Decoder(SummaryNode)


class RecentThreads(dict[str, V]):
    """A dict by thread that forgets the thread that was written longest ago.

    An engine that serves many threads for a long time does not grow with them.
    """

    def __setitem__(self, thread: str, value: V) -> None:
        self.pop(thread, None)
        super().__setitem__(thread, value)
        if len(self) > MOST_THREADS:
            del self[next(iter(self))]


class Library:
    """The library in a file, or in memory where there is no home; opened at first use."""

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        self._file = SqliteFile(path)
        self._clock = clock
        self._notes: dict[str, list[Note]] = RecentThreads()
        """Notes that were read; a thread has one writer, so they are still as it wrote them."""
        self._idle: dict[str, bool] = RecentThreads()
        """Threads for which no job waits."""
        self._nodes: dict[str, SummaryNode] = {}
        """The nodes of the last call of `nodes`."""

    async def add_node(self, node: SummaryNode) -> SummaryNode:
        """Store a node and end its job; return the stored node that has its name."""

        def query(db: sqlite3.Connection) -> SummaryNode:
            insert_node(db, node)
            if not node.degraded:
                db.execute("DELETE FROM jobs WHERE key = ?", (node.key,))
            return _decode_node(
                db.execute("SELECT node FROM nodes WHERE id = ?", (node.id,)).fetchone()
            )

        return await self._file.write(query)

    async def best_nodes(self, keys: Iterable[str]) -> dict[str, SummaryNode]:
        """Return the best node for each of `keys` that has one, by key."""
        if not (wanted := tuple(keys)):
            return {}
        keys_json = json_bytes(wanted)

        def query(db: sqlite3.Connection) -> dict[str, SummaryNode]:
            rows = db.execute(
                "SELECT node FROM nodes WHERE key IN (SELECT value FROM json_each(?)) "
                "ORDER BY degraded DESC, rowid",
                (keys_json,),
            )
            return {node.key: node for node in map(_decode_node, rows)}

        return await self._file.read(query)

    async def nodes(self, ids: Iterable[str]) -> dict[str, SummaryNode]:
        """Return nodes by their ids; ids without a node are left out."""
        wanted = tuple(ids)
        known = {name: self._nodes[name] for name in wanted if name in self._nodes}
        missing = json_bytes([name for name in wanted if name not in known])

        def query(db: sqlite3.Connection) -> dict[str, SummaryNode]:
            rows = db.execute(
                "SELECT node FROM nodes WHERE id IN (SELECT value FROM json_each(?))", (missing,)
            )
            return {node.id: node for node in map(_decode_node, rows)}

        if len(known) < len(wanted):
            known |= await self._file.read(query)
            self._nodes = dict(known)
        return known

    async def nodes_of_thread(self, thread: str) -> list[SummaryNode]:
        """Return the nodes that were made in a thread, in the order of its log."""

        def query(db: sqlite3.Connection) -> list[SummaryNode]:
            rows = db.execute(
                "SELECT node FROM nodes WHERE thread = ? ORDER BY first, depth", (thread,)
            )
            return list(map(_decode_node, rows))

        return await self._file.read(query)

    async def add_jobs(self, jobs: Sequence[SummaryJob]) -> None:
        """Add jobs; one that exists already stays as it is."""

        def query(db: sqlite3.Connection) -> None:
            db.executemany(
                "INSERT INTO jobs (key, thread, first, last, depth, created) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [(j.key, j.thread, j.first, j.last, j.depth, self._now()) for j in jobs],
            )

        if not jobs:
            return
        try:
            await self._file.write(query)
        finally:
            for each in jobs:
                self._idle.pop(each.thread, None)

    async def lease_job(
        self, thread: str, key: str, owner: str, *, at_once: bool = False
    ) -> SummaryJob | None:
        """Lease one job; None if another worker has it or, without `at_once`, it must wait."""

        def query(db: sqlite3.Connection) -> SummaryJob | None:
            now = self._now()
            row = db.execute(
                "UPDATE jobs SET owner = :owner, until = :until, attempts = attempts + 1 "
                # What lies further ahead than anybody waits was written under another clock.
                "WHERE thread = :thread AND key = :key "
                "AND (:at_once OR after <= :now OR after > :now + :wait) "
                "AND (owner IS NULL OR owner = :owner OR until <= :now OR until > :until) "
                "RETURNING key, thread, first, last, depth, attempts, error",
                {
                    "owner": owner,
                    "until": now + LEASE_MS,
                    "thread": thread,
                    "key": key,
                    "at_once": at_once,
                    "now": now,
                    "wait": LONGEST_WAIT_MS,
                },
            ).fetchone()
            return None if row is None else _decode_job(row)

        return await self._file.write(query)

    async def return_job(self, job: SummaryJob, error: str, wait: float = 0.0) -> None:
        """End the lease of a job; it is not leased again for `wait` seconds."""
        wait_ms = min(int(wait * 1000), LONGEST_WAIT_MS)

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE jobs SET owner = NULL, until = 0, after = ?, error = ? "
                "WHERE thread = ? AND key = ?",
                (self._now() + wait_ms, error, job.thread, job.key),
            )

        await self._file.write(work)

    async def jobs(self, thread: str | None = None) -> list[SummaryJob]:
        """Return the jobs that wait, oldest first."""

        def query(db: sqlite3.Connection) -> list[SummaryJob]:
            rows = db.execute(
                "SELECT key, thread, first, last, depth, attempts, error FROM jobs "
                "WHERE :thread IS NULL OR thread = :thread ORDER BY created, first",
                {"thread": thread},
            )
            return list(map(_decode_job, rows))

        return await self._file.read(query)

    async def keep_only_jobs(self, thread: str, keys: Iterable[str]) -> None:
        """Delete the jobs of a thread except those of `keys`."""
        wanted = json_bytes(tuple(keys))

        def query(db: sqlite3.Connection) -> bool:
            db.execute(
                "DELETE FROM jobs WHERE thread = ? AND key NOT IN (SELECT value FROM json_each(?))",
                (thread, wanted),
            )
            return db.execute("SELECT 1 FROM jobs WHERE thread = ?", (thread,)).fetchone() is None

        if await self._file.write(query):
            self._idle[thread] = True

    def is_idle(self, thread: str) -> bool:
        """Return whether it is known that no job waits for a thread."""
        return thread in self._idle

    def open_in_background(self) -> None:
        """Open the file while others work: a turn begins, and will read it."""
        self._file.open_in_background()

    def drop_cache(self, thread: str) -> None:
        """Read a thread's jobs and notes from the file again at their next use."""
        self._idle.pop(thread, None)
        self._notes.pop(thread, None)

    async def drop_jobs(self, thread: str, first: int) -> None:
        """Delete jobs about entries from `first` on."""

        def query(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM jobs WHERE thread = ? AND last >= ?", (thread, first))

        await self._file.write(query)

    async def forget_thread(self, thread: str) -> None:
        """Delete all that is known of a thread that is gone; a missing file stays missing."""
        tables = " UNION ALL ".join(f"SELECT thread FROM {name}" for name in _TABLES_BY_THREAD)
        known = f"SELECT 1 FROM ({tables}) WHERE thread = ? LIMIT 1"
        if await self._file.read(lambda db: db.execute(known, (thread,)).fetchone()):
            await self._file.write(lambda db: delete_thread(db, thread))
        self.drop_cache(thread)

    async def commit_turn(self, key: str, thread: str, number: int, first: int, last: int) -> bool:
        """Record a turn; return whether it is new."""

        def query(db: sqlite3.Connection) -> bool:
            done = db.execute(
                "INSERT INTO turns VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (key, thread, number, first, last),
            )
            return done.rowcount == 1

        return await self._file.write(query)

    async def last_committed_entry(self, thread: str) -> int:
        """Return the last entry of the newest recorded turn; 0 where there is none."""

        def query(db: sqlite3.Connection) -> int:
            row = db.execute(
                "SELECT last FROM turns WHERE thread = ? ORDER BY number DESC LIMIT 1", (thread,)
            ).fetchone()
            return 0 if row is None else int(row[0])

        return await self._file.read(query)

    async def write_note(self, thread: str, name: str, text: str) -> None:
        """Write a note in place of one with the same name; an empty text removes it."""

        def query(db: sqlite3.Connection) -> None:
            if not text.strip():
                db.execute("DELETE FROM notes WHERE thread = ? AND name = ?", (thread, name))
                return
            db.execute(
                "INSERT INTO notes (thread, name, text, time) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (thread, name) DO UPDATE SET text = excluded.text, "
                "time = excluded.time",
                (thread, name, text, self._now()),
            )

        await self._file.write(query)
        self._notes.pop(thread, None)

    async def notes(self, thread: str) -> list[Note]:
        """Return the notes of a thread, oldest first."""

        def query(db: sqlite3.Connection) -> list[Note]:
            rows = db.execute(
                "SELECT name, text, time FROM notes WHERE thread = ? ORDER BY number", (thread,)
            )
            return [Note(name=name, text=text, time=at) for name, text, at in rows]

        if thread not in self._notes:
            self._notes[thread] = await self._file.read(query)
        return list(self._notes[thread])

    async def notes_of(self, threads: Sequence[str], most: int) -> list[tuple[str, Note]]:
        """Return the newest notes of several threads, each with its thread, the newest first."""
        wanted = json_bytes(list(threads))

        def query(db: sqlite3.Connection) -> list[tuple[str, Note]]:
            rows = db.execute(
                "SELECT thread, name, text, time FROM notes "
                "WHERE thread IN (SELECT value FROM json_each(?)) ORDER BY time DESC LIMIT ?",
                (wanted, most),
            )
            return [
                (thread, Note(name=name, text=text, time=at)) for thread, name, text, at in rows
            ]

        return await self._file.read(query)

    async def pin_guidance(self, thread: str, prefix: str, text: str) -> str:
        """Store the guidance for a prefix of the view, once; return what is stored for it."""

        def query(db: sqlite3.Connection) -> str:
            db.execute(
                "INSERT INTO told VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (thread, prefix, text)
            )
            row = db.execute(
                "SELECT text FROM told WHERE thread = ? AND prefix = ?", (thread, prefix)
            ).fetchone()
            return str(row[0])

        return await self._file.write(query)

    async def close(self) -> None:
        """Close the file. Harmless when called twice."""
        await self._file.close()

    async def recalled_entries(self, thread: str, base: str) -> frozenset[RecalledEntry]:
        """Return the entries that were recalled into the view that starts with `base`."""
        return await self._file.read(lambda db: read_recalled(db, thread, base))

    async def note_recalled(
        self, thread: str, base: str, entries: frozenset[RecalledEntry]
    ) -> None:
        """Remember which entries were recalled into the view that starts with `base`."""
        await self._file.write(lambda db: write_recalled(db, thread, base, entries))

    async def forget_recalled(self, thread: str) -> None:
        """Forget what was recalled: some of it may be hidden now."""
        await self._file.write(lambda db: delete_recalled(db, thread))

    def _now(self) -> int:
        return int(self._clock() * 1000)


def insert_node(db: sqlite3.Connection, node: SummaryNode) -> None:
    """Insert a node, unless its id is taken."""
    db.execute(
        "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            node.id,
            node.key,
            node.thread,
            node.first,
            node.last,
            node.depth,
            node.tokens,
            node.degraded,
            msgspec.msgpack.encode(node),
        ),
    )


def delete_thread(
    db: sqlite3.Connection, thread: str, in_use: frozenset[str] = frozenset()
) -> None:
    """Delete all rows of a thread, except the nodes `in_use` by other threads."""
    db.execute(
        "DELETE FROM nodes WHERE thread = ? AND id NOT IN (SELECT value FROM json_each(?))",
        (thread, json_bytes(sorted(in_use))),
    )
    for table in _TABLES_BY_THREAD[1:]:
        db.execute(f"DELETE FROM {table} WHERE thread = ?", (thread,))


def _decode_node(row: tuple[bytes]) -> SummaryNode:
    return _node_decoder.decode(row[0])


def _decode_job(row: tuple[str, str, int, int, int, int, str | None]) -> SummaryJob:
    key, thread, first, last, depth, attempts, error = row
    return SummaryJob(
        key=key,
        thread=thread,
        first=first,
        last=last,
        depth=depth,
        attempts=attempts,
        error=error,
    )
