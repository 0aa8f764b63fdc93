"""The store in PostgreSQL.

Owns no logic of its own: changes go through `Commits`, leases through `LeaseKeeper`, questions
to the statements that all stores share. Invariants: nothing here blocks the event loop; no known
secret is written, but for blobs, whose bytes are their caller's.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from ...core.entries import Entry, Kind
from ...core.errors import LeaseLost, NotFound, StoreReadOnly
from ...core.ids import new_id
from ...core.redact import blank_value, redact_known
from .. import lineage, log_pages, queries, updates
from ..contract import (
    Change,
    ChangeResult,
    Holder,
    InboxDraft,
    InboxMessage,
    Lease,
    OutboxRow,
    Span,
    ThreadInfo,
    Turn,
)
from ..lease import this_process
from ..log_database import LogDatabase
from ..rows import RowRange, blob_digest
from ..work import Work
from .commits import Commits
from .connections import Connections, Job
from .database_address import Address, parse_address
from .database_connection import PostgresConnection
from .database_layout import ensure_layout
from .database_server import ServerClock, ServerFacts
from .entry_reads import read_line, read_parts
from .leases import LeaseKeeper, PostgresLease, delete_free_thread
from .server_errors import server_errors
from .waiting import WorkBell, find_free_work

__all__ = ["CONNECTIONS", "LEASE_SECONDS", "PATIENCE_SECONDS", "PostgresStore"]

T = TypeVar("T")

CONNECTIONS = 8
"""How many connections a store opens, as it needs them; one more holds its leases."""
LEASE_SECONDS = 15.0
"""How long a lease holds that nobody renews: its holder was stopped, or cannot be reached."""
PATIENCE_SECONDS = 20.0
"""How long to wait for a server that was lost."""
_LINES = 1024


class PostgresStore:
    """A store in a PostgreSQL database, durable and shared between machines.

    Use it as an async context manager, or call `close`.
    """

    def __init__(
        self,
        connections: Connections,
        facts: ServerFacts,
        *,
        read_only: bool,
        clock: Callable[[], float] | None,
        lease_seconds: float,
    ) -> None:
        self.address = ""
        """Where this process serves live events; whoever looks for a holder is told."""
        self.facts = facts
        self.read_only = read_only
        self.connections = connections
        """For the index beside it."""
        self._clock = ServerClock(facts.now)
        self._given_clock = clock
        self._commits = Commits(connections, self._clock)
        self._keeper = LeaseKeeper(connections, lease_seconds, self._release)
        self._bell = WorkBell(connections)
        self._lines: OrderedDict[str, list[RowRange]] = OrderedDict()

    @classmethod
    async def open(
        cls,
        address: str,
        *,
        clock: Callable[[], float] | None = None,
        connections: int = CONNECTIONS,
        lease_seconds: float = LEASE_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        read_only: bool = False,
    ) -> PostgresStore:
        """Open the store at ``postgresql://user@host:port/database``; make its tables at first.

        Times come from the clock of the database, or from `clock`. `patience_seconds` is how long
        to wait for a server that was lost later; one that cannot be reached now raises at once.
        Raises `ConfigError`, `StoreUnreachable`, `StoreTooNew`, or `StoreReadOnly` for a database
        without our tables that can only be read.
        """

        def look(db: PostgresConnection) -> tuple[ServerFacts, bool]:
            facts = pool.facts
            assert facts is not None, "a connection was made"
            with server_errors(where):
                may_write = not (read_only or facts.standby)
                ensure_layout(db, where, may_write=may_write)
                (granted,) = db.execute(
                    "SELECT has_table_privilege('treadle.threads', 'UPDATE')"
                ).fetchone()
            return facts, may_write and granted

        def prepare() -> tuple[ServerFacts, bool]:
            with pool.lend() as db:
                return look(db)

        where = await asyncio.to_thread(parse_address, address)
        pool = Connections(where, connections, patience_seconds)
        try:
            facts, may_write = await pool.run(prepare)
        except BaseException:
            await asyncio.to_thread(pool.close)
            raise
        return cls(pool, facts, read_only=not may_write, clock=clock, lease_seconds=lease_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def where(self) -> Address:
        """Return the address of the database; its text has no password."""
        return self.connections.address

    async def create(self, *, cwd: str = "", title: str = "") -> ThreadInfo:
        """Create an empty thread."""
        title, thread = redact_known(title), new_id("thr")

        def make(db: PostgresConnection) -> ThreadInfo:
            if (made := _made_before(db, thread)) is not None:
                return made
            return lineage.create_thread(db, cwd, title, self._now(), thread=thread)

        return await self._write(make)

    async def fork(self, thread: str, cut: int, *, title: str = "") -> ThreadInfo:
        """Create a thread that shares the entries up to `cut` without copying them."""
        title, child = redact_known(title), new_id("thr")

        def make(db: PostgresConnection) -> ThreadInfo:
            if (made := _made_before(db, child)) is not None:
                return made
            # Nobody may delete the parent, or end its turns, between what is read of it.
            db.execute("SELECT 1 FROM threads WHERE id = ? FOR NO KEY UPDATE", (thread,))
            return lineage.fork_thread(db, thread, cut, title, self._now(), thread=child)

        return await self._write(make)

    async def delete(self, thread: str) -> None:
        """Delete a thread. What its forks share stays until the last of them is deleted."""
        tries: list[int] = []

        def delete(db: PostgresConnection) -> None:
            tries.append(1)
            try:
                delete_free_thread(db, thread, self._now())
            except NotFound:
                if len(tries) == 1:
                    raise
                # The answer of an earlier try was lost, and it did what it was for.

        await self._write(delete)
        self._lines.pop(thread, None)

    async def info(self, thread: str) -> ThreadInfo:
        """Return one thread."""
        return await self._query(lambda db: queries.thread_info(db, thread))

    async def threads(self, *, limit: int | None = None) -> list[ThreadInfo]:
        """Return all threads, the most recently written first."""
        return await self._query(lambda db: queries.list_threads(db, limit))

    async def sizes(self, threads: Sequence[str]) -> dict[str, int]:
        """Return the bytes of entries and blobs of each thread."""
        return await self._query(
            lambda db: {thread: queries.thread_size(db, thread) for thread in threads}
        )

    async def rollbacks(self, thread: str) -> list[tuple[int, int]]:
        """Return every rollback of a log, oldest first, and the first entry that each hides."""
        return await self._snapshot(lambda db: queries.find_rollbacks(db, thread))

    async def lineage(self, thread: str) -> list[Span]:
        """Return who wrote the entries of a log, oldest first."""
        return await self._snapshot(lambda db: queries.thread_lineage(db, thread))

    async def acquire(self, thread: str) -> PostgresLease:
        """Acquire the lease for writing `thread`. Raises `ThreadBusy` with its holder."""
        self._ensure_writable()
        holder = this_process(self._now(), self.address)
        return await self.connections.run(
            lambda: self._keeper.acquire(thread, holder), self._keeper.release
        )

    async def _release(self, lease: PostgresLease) -> None:
        if lease in self._keeper.held:
            await self.connections.run(lambda: self._keeper.release(lease))

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        """Apply `change` atomically and durably.

        A caller that is cancelled while it waits cannot know whether the change landed; it landed
        whole or not at all. Raises `OutcomeUnknown` when the server was lost and did not come back
        in time to ask it.
        """
        self._ensure_writable()
        if not isinstance(lease, PostgresLease):
            raise LeaseLost(lease.thread)
        if change.unless_input:
            # Asked before, for in a transaction of its own nothing is waited for.
            if any(each.kind == "input" for each in await self.inbox(lease.thread)):
                return ChangeResult(mail=True, held_back=True)
            change = replace(change, unless_input=False)
        change = blank_value(change)
        before = lease.tail

        def apply() -> ChangeResult:
            _wait_for_end(before)
            return self._commits.apply(lease, change, self._now())

        lease.tail = work = self.connections.submit(apply)
        # One that was cancelled before it began would be no sign that those before it have ended.
        waits = asyncio.wrap_future(work)
        waits.add_done_callback(_hear)
        return await asyncio.shield(waits)

    async def read(
        self,
        thread: str,
        first: int = 1,
        last: int | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return the entries from `first` to `last` (both included), with the shared prefix."""
        return await self._read(thread, [(first, last)], reverse=reverse, limit=limit)

    async def read_ranges(self, thread: str, ranges: Sequence[tuple[int, int]]) -> list[Entry]:
        """Return the entries of several ranges in the order given, from one snapshot."""
        return await self._read(thread, ranges)

    async def _read(
        self,
        thread: str,
        ranges: Sequence[tuple[int, int | None]],
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[Entry]:
        def read(db: PostgresConnection) -> list[Entry]:
            line = self._lines.get(thread)
            if line is not None:
                try:
                    return read_parts(db, thread, line, ranges, reverse=reverse, limit=limit)
                except NotFound:
                    # Deleted; or it came back from another store, with another number.
                    self._lines.pop(thread, None)
            self._lines[thread] = line = read_line(db, thread)
            if len(self._lines) > _LINES:
                self._lines.popitem(last=False)
            return read_parts(db, thread, line, ranges, reverse=reverse, limit=limit)

        return await self._query(read)

    async def read_kinds(
        self, thread: str, kinds: Collection[Kind], first: int, *, limit: int
    ) -> list[Entry]:
        """Return the first entries of these kinds from `first` on, with the shared prefix."""
        return await self._snapshot(lambda db: queries.read_kinds(db, thread, kinds, first, limit))

    async def turn(self, thread: str, number: int) -> Turn:
        """Return one turn by its number."""
        return await self._snapshot(lambda db: queries.find_turn(db, thread, number))

    async def turns(self, thread: str, *, limit: int | None = None) -> list[Turn]:
        """Return the turns of a thread, oldest first; with `limit` only the newest."""
        return await self._snapshot(lambda db: queries.list_turns(db, thread, limit))

    async def thread_page(
        self, *, before: tuple[int, str] | None = None, cwd: str | None = None, limit: int
    ) -> list[ThreadInfo]:
        """Return the threads written before that time and thread, the newest first."""
        return await self._query(lambda db: log_pages.page_threads(db, before, cwd, limit))

    async def family(self, thread: str, *, limit: int) -> list[ThreadInfo]:
        """Return the living threads that share a root with `thread`, the oldest first."""
        return await self._snapshot(lambda db: log_pages.find_family(db, thread, limit))

    async def holders(self, threads: Sequence[str]) -> dict[str, Holder]:
        """Return who said last that it writes these threads; it may have died since."""
        return await self._query(lambda db: log_pages.find_holders(db, threads))

    async def turn_page(self, thread: str, *, before: int | None = None, limit: int) -> list[Turn]:
        """Return the newest turns with a number below `before`, oldest first."""
        return await self._snapshot(lambda db: log_pages.page_turns(db, thread, before, limit))

    async def read_kinds_back(
        self, thread: str, kinds: Collection[Kind], last: int, *, first: int = 1, limit: int
    ) -> list[Entry]:
        """Return the newest entries of these kinds from `last` down to `first`, newest first."""
        return await self._snapshot(
            lambda db: log_pages.read_kinds_back(db, thread, kinds, (first, last), limit)
        )

    async def read_told_back(
        self, thread: str, last: int, *, first: int = 1, limit: int
    ) -> list[Entry]:
        """Return the newest entries that tell fragments, from `last` down to `first`."""
        return await self._snapshot(
            lambda db: log_pages.read_told_back(db, thread, (first, last), limit)
        )

    async def put_blob(self, thread: str, data: bytes) -> str:
        """Store `data` for `thread` and return its digest (``sha256:`` and hex)."""

        def put(db: PostgresConnection) -> str:
            last = queries.thread_info(db, thread).last
            updates.store_blob(db, queries.thread_number(db, thread), last + 1, data)
            return blob_digest(data)

        return await self._write(put)

    async def blob(self, digest: str) -> bytes:
        """Return the bytes under `digest`."""
        return await self._query(lambda db: queries.read_blob(db, digest))

    async def blobs(self, digests: Sequence[str]) -> list[bytes]:
        """Return the bytes under several digests in the order given, from one snapshot."""
        return await self._snapshot(
            lambda db: [queries.read_blob(db, digest) for digest in digests]
        )

    async def post(self, thread: str, message: InboxDraft) -> InboxMessage:
        """Send a message to the thread's writer. Needs no lease."""
        message = blank_value(message)
        return await self._write(lambda db: updates.post_message(db, thread, message, self._now()))

    async def inbox(self, thread: str) -> list[InboxMessage]:
        """Return the messages that wait, oldest first."""
        return await self._query(lambda db: queries.list_inbox(db, thread))

    async def outbox(
        self, *, thread: str | None = None, topic: str | None = None
    ) -> list[OutboxRow]:
        """Return the rows that wait, oldest first."""
        return await self._query(lambda db: queries.list_outbox(db, thread, topic))

    async def retry(self, row: int, error: str) -> None:
        """Count a failed attempt at an outbox row."""
        error, at = redact_known(error), self._now()
        tries: list[int] = []

        def count(db: PostgresConnection) -> None:
            tries.append(1)
            counted = "SELECT 1 FROM outbox WHERE number = ? AND updated = ? AND error = ?"
            if len(tries) > 1 and db.execute(counted, (row, at, error)).fetchone():
                return  # an earlier try, whose answer was lost
            updates.count_attempt(db, row, error, at)

        await self._write(count)

    async def waiting(self, *, limit: int) -> list[Work]:
        """Return threads with work whose lease looks free, the longest waiting first."""
        return await self._snapshot(lambda db: find_free_work(db, limit))

    async def announce_work(self) -> None:
        """Tell all who wait that there may be work. Never part of a commit; may be lost."""
        await self.connections.run(self._bell.ring)

    async def wait_for_work(self, seconds: float) -> None:
        """Return when work was announced, at the latest after `seconds`."""
        await self._bell.wait(seconds)

    async def read_rows(self, job: Callable[[LogDatabase], T]) -> T:
        """Return what a job finds, in one snapshot."""
        return await self._snapshot(job)

    async def write_rows(self, job: Callable[[LogDatabase], T]) -> T:
        """Return the result of a job in one durable transaction; it may be done twice."""
        return await self._write(job)

    async def find_damaged(self) -> list[str]:
        """Return the names of entries and blobs that are not as they were written; reads all."""
        return await self._snapshot(queries.find_damaged)

    async def close(self) -> None:
        """Release every lease, finish accepted changes, then close the connections."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for lease in list(self._keeper.held):
            _wait_for_end(lease.tail)
            self._keeper.release(lease)
        self.connections.close()
        self._keeper.close()
        self._bell.close()

    async def _query(self, job: Job[T]) -> T:
        return await self.connections.query(job)

    async def _snapshot(self, job: Job[T]) -> T:
        return await self.connections.snapshot(job)

    async def _write(self, job: Job[T]) -> T:
        self._ensure_writable()
        return await self.connections.write(job)

    def _ensure_writable(self) -> None:
        if self.read_only:
            raise StoreReadOnly(
                f"{self.where.shown!r} was opened to be read only, or this user may only read it; "
                "name the primary server, or have its owner `GRANT` what is missing"
            )

    def _now(self) -> int:
        if self._given_clock is not None:
            return int(self._given_clock() * 1000)
        return self._clock.now()


def _made_before(connection: PostgresConnection, thread: str) -> ThreadInfo | None:
    """Return a thread whose making succeeded, though the answer was lost."""
    try:
        return queries.thread_info(connection, thread)
    except NotFound:
        return None


def _wait_for_end(work: Future[Any] | None) -> None:
    """Wait until a job has ended, however it did."""
    if work is not None:
        work.exception()


def _hear(done: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody may be waiting for any more."""
    if not done.cancelled():
        done.exception()
