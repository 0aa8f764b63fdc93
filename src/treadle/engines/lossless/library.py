"""The library: the nodes of all threads, the work that waits for them, and notes.

Owns what is kept in ``lossless.db``. Invariants: a node never changes once it is
kept; a job belongs to one worker at a time and is free again when its lease runs out;
what is lost with the file can be made again from the log; and what cannot have changed
since it was read is not read again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ...core.wire import json_bytes
from .nodes import SummaryNode
from .recent import Recent
from .shelf import Shelf

__all__ = ["Frontier", "Job", "Library", "Note", "keep_node"]

_EVER = 1 << 62
LEASE_MS = 300_000
"""How long a job belongs to the worker that took it."""


class Job(Struct, frozen=True, kw_only=True):
    """A summary that is to be made."""

    key: str
    thread: str
    first: int
    last: int
    depth: int = 0
    attempts: int = 0
    error: str | None = None


class Note(Struct, frozen=True, kw_only=True):
    """Something that an agent wrote down for itself."""

    name: str
    text: str
    time: int


class Frontier(Struct, frozen=True, kw_only=True):
    """How far a thread's turns are known, and what is kept of it."""

    turns: int = 0
    last: int = 0
    nodes: int = 0
    degraded: int = 0
    jobs: int = 0


class Library:
    """Nodes in a file, or in memory where there is no home; opened at first use."""

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        self._shelf = Shelf(path)
        self._clock = clock
        self._notes: dict[str, list[Note]] = Recent()
        """Notes that were read; a thread has one writer, so they are as it wrote them."""
        self._idle: dict[str, bool] = Recent()
        """Threads for which no work waits."""
        self._nodes: dict[str, SummaryNode] = {}
        """The nodes that were asked for last."""

    async def add(self, node: SummaryNode) -> SummaryNode:
        """Keep a node, and consider its job done; the one that has its name, if there is one."""

        def job(db: sqlite3.Connection) -> SummaryNode:
            keep_node(db, node)
            if not node.degraded:
                db.execute("DELETE FROM jobs WHERE key = ?", (node.key,))
            return _decoded(
                db.execute("SELECT node FROM nodes WHERE id = ?", (node.id,)).fetchone()
            )

        return await self._shelf.change(job)

    async def find(self, keys: Iterable[str]) -> dict[str, SummaryNode]:
        """The best node for each of `keys` that has one."""
        if not (sought := tuple(keys)):
            return {}
        wanted = json_bytes(sought)

        def job(db: sqlite3.Connection) -> dict[str, SummaryNode]:
            rows = db.execute(
                "SELECT node FROM nodes WHERE key IN (SELECT value FROM json_each(?)) "
                "ORDER BY degraded DESC, rowid",
                (wanted,),
            )
            return {node.key: node for node in map(_decoded, rows)}

        return await self._shelf.ask(job)

    async def get(self, ids: Iterable[str]) -> dict[str, SummaryNode]:
        """Nodes by their names; those that do not exist are left out."""
        sought = tuple(ids)
        known = {name: self._nodes[name] for name in sought if name in self._nodes}
        missing = json_bytes([name for name in sought if name not in known])

        def job(db: sqlite3.Connection) -> dict[str, SummaryNode]:
            rows = db.execute(
                "SELECT node FROM nodes WHERE id IN (SELECT value FROM json_each(?))", (missing,)
            )
            return {node.id: node for node in map(_decoded, rows)}

        if len(known) < len(sought):
            known |= await self._shelf.ask(job)
            self._nodes = dict(known)
        return known

    async def of_thread(self, thread: str) -> list[SummaryNode]:
        """The nodes that were made in a thread, in the order of its log."""

        def job(db: sqlite3.Connection) -> list[SummaryNode]:
            rows = db.execute(
                "SELECT node FROM nodes WHERE thread = ? ORDER BY first, depth", (thread,)
            )
            return list(map(_decoded, rows))

        return await self._shelf.ask(job)

    async def want(self, jobs: Sequence[Job]) -> None:
        """Note work that is to be done; what is noted already stays as it is."""

        def job(db: sqlite3.Connection) -> None:
            db.executemany(
                "INSERT INTO jobs (key, thread, first, last, depth, created) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [(j.key, j.thread, j.first, j.last, j.depth, self._now()) for j in jobs],
            )

        if not jobs:
            return
        try:
            await self._shelf.change(job)
        finally:
            for each in jobs:
                self._idle.pop(each.thread, None)

    async def take(self, thread: str, key: str, owner: str, *, at_once: bool = False) -> Job | None:
        """Lease one job, unless someone has it or it should wait; `at_once` it need not."""

        def job(db: sqlite3.Connection) -> Job | None:
            now = self._now()
            row = db.execute(
                "UPDATE jobs SET owner = ?, until = ?, attempts = attempts + 1 "
                "WHERE thread = ? AND key = ? AND after <= ? "
                "AND (owner IS NULL OR owner = ? OR until <= ?) "
                "RETURNING key, thread, first, last, depth, attempts, error",
                (owner, now + LEASE_MS, thread, key, _EVER if at_once else now, owner, now),
            ).fetchone()
            return None if row is None else _job(row)

        return await self._shelf.change(job)

    async def put_back(self, job: Job, error: str, wait: float = 0.0) -> None:
        """Give a job back; it is not taken again for `wait` seconds."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE jobs SET owner = NULL, until = 0, after = ?, error = ? "
                "WHERE thread = ? AND key = ?",
                (self._now() + int(wait * 1000), error, job.thread, job.key),
            )

        await self._shelf.change(work)

    async def jobs(self, thread: str | None = None) -> list[Job]:
        """The work that waits, oldest first."""

        def job(db: sqlite3.Connection) -> list[Job]:
            rows = db.execute(
                "SELECT key, thread, first, last, depth, attempts, error FROM jobs "
                "WHERE ?1 IS NULL OR thread = ?1 ORDER BY created, first",
                (thread,),
            )
            return list(map(_job, rows))

        return await self._shelf.ask(job)

    async def keep_jobs(self, thread: str, keys: Iterable[str]) -> None:
        """Forget a thread's work but for `keys`."""
        wanted = json_bytes(tuple(keys))

        def job(db: sqlite3.Connection) -> bool:
            db.execute(
                "DELETE FROM jobs WHERE thread = ? AND key NOT IN (SELECT value FROM json_each(?))",
                (thread, wanted),
            )
            return db.execute("SELECT 1 FROM jobs WHERE thread = ?", (thread,)).fetchone() is None

        if await self._shelf.change(job):
            self._idle[thread] = True

    def idle(self, thread: str) -> bool:
        """Whether it is known that no work waits for a thread."""
        return thread in self._idle

    def open_soon(self) -> None:
        """A thread with a past begins a turn, and what is known of it will be asked for."""
        self._shelf.open_soon()

    def forget(self, thread: str) -> None:
        """Read about a thread anew when it is asked for."""
        self._idle.pop(thread, None)
        self._notes.pop(thread, None)

    async def drop_jobs(self, thread: str, first: int) -> None:
        """Forget work about entries from `first` on."""

        def job(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM jobs WHERE thread = ? AND last >= ?", (thread, first))

        await self._shelf.change(job)

    async def commit(self, key: str, thread: str, number: int, first: int, last: int) -> bool:
        """Note a turn; whether it was new."""

        def job(db: sqlite3.Connection) -> bool:
            done = db.execute(
                "INSERT INTO turns VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (key, thread, number, first, last),
            )
            return done.rowcount == 1

        return await self._shelf.change(job)

    async def committed(self, thread: str) -> int:
        """The last entry of the newest turn that was noted; 0 where none was."""

        def job(db: sqlite3.Connection) -> int:
            row = db.execute(
                "SELECT last FROM turns WHERE thread = ? ORDER BY number DESC LIMIT 1", (thread,)
            ).fetchone()
            return 0 if row is None else int(row[0])

        return await self._shelf.ask(job)

    async def frontier(self, thread: str) -> Frontier:
        """How far a thread is known."""

        def job(db: sqlite3.Connection) -> Frontier:
            turns, last = db.execute(
                "SELECT count(*), coalesce(max(last), 0) FROM turns WHERE thread = ?", (thread,)
            ).fetchone()
            nodes, degraded = db.execute(
                "SELECT count(*), coalesce(sum(degraded), 0) FROM nodes WHERE thread = ?", (thread,)
            ).fetchone()
            (jobs,) = db.execute("SELECT count(*) FROM jobs WHERE thread = ?", (thread,)).fetchone()
            return Frontier(turns=turns, last=last, nodes=nodes, degraded=degraded, jobs=jobs)

        return await self._shelf.ask(job)

    async def write_note(self, thread: str, name: str, text: str) -> None:
        """Write a note down, in place of one with the same name; an empty text removes it."""

        def job(db: sqlite3.Connection) -> None:
            if not text.strip():
                db.execute("DELETE FROM notes WHERE thread = ? AND name = ?", (thread, name))
                return
            db.execute(
                "INSERT INTO notes (thread, name, text, time) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (thread, name) DO UPDATE SET text = excluded.text, "
                "time = excluded.time",
                (thread, name, text, self._now()),
            )

        await self._shelf.change(job)
        self._notes.pop(thread, None)

    async def notes(self, thread: str) -> list[Note]:
        """The notes of a thread, oldest first."""

        def job(db: sqlite3.Connection) -> list[Note]:
            rows = db.execute(
                "SELECT name, text, time FROM notes WHERE thread = ? ORDER BY number", (thread,)
            )
            return [Note(name=name, text=text, time=at) for name, text, at in rows]

        if thread not in self._notes:
            self._notes[thread] = await self._shelf.ask(job)
        return list(self._notes[thread])

    async def tell_once(self, thread: str, prefix: str, text: str) -> str:
        """What was told with a prefix the first time; `text` when this is the first time."""

        def job(db: sqlite3.Connection) -> str:
            db.execute(
                "INSERT INTO told VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (thread, prefix, text)
            )
            row = db.execute(
                "SELECT text FROM told WHERE thread = ? AND prefix = ?", (thread, prefix)
            ).fetchone()
            return str(row[0])

        return await self._shelf.change(job)

    async def close(self) -> None:
        """Let go of the file. Harmless when called twice."""
        await self._shelf.close()

    def _now(self) -> int:
        return int(self._clock() * 1000)


def keep_node(db: sqlite3.Connection, node: SummaryNode) -> None:
    """Write a node, unless its name is taken."""
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


def _decoded(row: tuple[bytes]) -> SummaryNode:
    return msgspec.msgpack.decode(row[0], type=SummaryNode)


def _job(row: tuple[str, str, int, int, int, int, str | None]) -> Job:
    key, thread, first, last, depth, attempts, error = row
    return Job(
        key=key,
        thread=thread,
        first=first,
        last=last,
        depth=depth,
        attempts=attempts,
        error=error,
    )
