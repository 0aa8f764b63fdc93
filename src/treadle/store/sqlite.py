"""The store on disk: `log.db` and the lock files beside it.

Owns no logic of its own: writes go to the one writer thread, queries to the readers.
Invariants: nothing here blocks the event loop; no known secret is written, but for blobs,
whose bytes are their caller's.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from msgspec.structs import replace

from ..core.entries import Entry, Kind
from ..core.errors import NotFound, StoreError, StoreFull, StoreReadOnly
from ..core.home import home
from ..core.redact import blank_value, redact_known
from . import lineage, log_pages, queries, updates
from .contract import (
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
from .database import BUSY_SECONDS, open_reader, open_writer
from .lease import (
    FileLock,
    SqliteLease,
    clear_holder,
    lock_thread,
    take_lease,
    this_process,
)
from .log_database import LogDatabase
from .rows import blob_digest
from .work import Work
from .workers import Job, LogReaders, LogWriter, keep_nothing

__all__ = ["SqliteStore"]

T = TypeVar("T")


class SqliteStore:
    """A store in a directory, durable and shared between processes.

    A directory that cannot be written, or is full, can still be opened; only writing
    then raises `StoreReadOnly` or `StoreFull`. Use it as an async context manager, or
    call `close`.
    """

    def __init__(
        self, directory: Path, writer: LogWriter | StoreError, clock: Callable[[], float]
    ) -> None:
        self.directory = directory
        self.address = ""
        """Where this process serves live events; whoever looks for a holder is told."""
        self._writer = writer
        self._readers = LogReaders(directory / "log.db")
        self._clock = clock
        self._leases: set[SqliteLease] = set()

    @classmethod
    async def open(
        cls,
        directory: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
    ) -> SqliteStore:
        """Open the store in `directory`, by default Treadle's home; create it if there is none.

        `busy_seconds` is how long to wait for another process that is writing. Raises
        `StoreCorrupt`, `StoreTooNew` or `StoreBusy`, and `StoreReadOnly` or `StoreFull`
        when there is neither a log to read nor a place to make one.
        """
        return await asyncio.to_thread(cls._open, directory, clock, busy_seconds)

    @classmethod
    def _open(
        cls, directory: Path | None, clock: Callable[[], float], busy_seconds: float
    ) -> SqliteStore:
        directory = home() if directory is None else directory
        path = directory / "log.db"
        try:
            return cls(directory, LogWriter(open_writer(path, busy_seconds), path), clock)
        except (StoreReadOnly, StoreFull) as error:
            if not path.exists():
                raise
            open_reader(path).close()
            return cls(directory, error, clock)

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
    def read_only(self) -> bool:
        """Whether the directory could only be opened for reading."""
        return not isinstance(self._writer, LogWriter)

    def is_lost(self) -> bool:
        """Return whether the log was deleted or replaced while it was open. Looks at the disk."""
        return isinstance(self._writer, LogWriter) and self._writer.is_lost()

    async def create(self, *, cwd: str = "", title: str = "") -> ThreadInfo:
        """Create an empty thread."""
        title = redact_known(title)
        return await self._write(lambda db: lineage.create_thread(db, cwd, title, self._now()))

    async def fork(self, thread: str, cut: int, *, title: str = "") -> ThreadInfo:
        """Create a thread that shares the entries up to `cut` without copying them."""
        title = redact_known(title)
        return await self._write(
            lambda db: lineage.fork_thread(db, thread, cut, title, self._now())
        )

    async def delete(self, thread: str) -> None:
        """Delete a thread. What its forks share stays until the last of them is deleted."""
        lock = self._lock(thread)

        def forget(db: sqlite3.Connection) -> FileLock:
            lock_thread(db, thread, lock)
            with lock.release_on_error():
                lineage.delete_thread(db, thread, self._now())
                lock.path.unlink(missing_ok=True)
            return lock

        (await self._write(forget, FileLock.release)).release()

    async def info(self, thread: str) -> ThreadInfo:
        """Return one thread."""
        return await self._readers.run(lambda db: queries.thread_info(db, thread))

    async def threads(self, *, limit: int | None = None) -> list[ThreadInfo]:
        """Return all threads, the most recently written first."""
        return await self._readers.run(lambda db: queries.list_threads(db, limit))

    async def sizes(self, threads: Sequence[str]) -> dict[str, int]:
        """Return the bytes of entries and blobs of each thread."""
        return await self._readers.run(
            lambda db: {thread: queries.thread_size(db, thread) for thread in threads}
        )

    async def rollbacks(self, thread: str) -> list[tuple[int, int]]:
        """Return every rollback of a log, oldest first, and the first entry that each hides."""
        return await self._readers.run(lambda db: queries.find_rollbacks(db, thread))

    async def lineage(self, thread: str) -> list[Span]:
        """Return who wrote the entries of a log, oldest first."""
        return await self._readers.run(lambda db: queries.thread_lineage(db, thread))

    async def acquire(self, thread: str) -> SqliteLease:
        """Acquire the lease for writing `thread`. Raises `ThreadBusy` with its holder."""
        lock = self._lock(thread)

        def take(db: sqlite3.Connection) -> SqliteLease:
            fence = take_lease(db, thread, lock, this_process(self._now(), self.address))
            return SqliteLease(thread, fence, lock, self._release_lease)

        lease = await self._write(take, lambda lease: lease.lock.release())
        self._leases.add(lease)
        return lease

    async def _release_lease(self, lease: SqliteLease) -> None:
        if lease not in self._leases:
            return
        self._leases.discard(lease)
        try:
            await self._write(lambda db: clear_holder(db, lease.thread, lease.fence))
        finally:
            lease.lock.release()

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        """Apply `change` atomically and durably.

        A caller that is cancelled while it waits cannot know whether the change
        landed; it landed whole or not at all.
        """
        change = blank_value(change)

        def apply(db: sqlite3.Connection) -> ChangeResult:
            log = updates.open_log(db, lease.thread, lease.fence, self._now())
            result = updates.apply_change(log, change)
            waits = log.has_mail() if change.take else log.found_mail
            return replace(result, mail=True) if waits else result

        return await self._write(apply, light=change.light)

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
        return await self._readers.run(
            lambda db: queries.read_entries(
                db, thread, [(first, last)], reverse=reverse, limit=limit
            )
        )

    async def read_kinds(
        self, thread: str, kinds: Collection[Kind], first: int, *, limit: int
    ) -> list[Entry]:
        """Return the first entries of these kinds from `first` on, with the shared prefix."""
        return await self._readers.run(
            lambda db: queries.read_kinds(db, thread, kinds, first, limit)
        )

    async def read_ranges(self, thread: str, ranges: Sequence[tuple[int, int]]) -> list[Entry]:
        """Return the entries of several ranges in the order given, from one snapshot."""
        return await self._readers.run(lambda db: queries.read_entries(db, thread, ranges))

    async def turn(self, thread: str, number: int) -> Turn:
        """Return one turn by its number."""
        return await self._readers.run(lambda db: queries.find_turn(db, thread, number))

    async def turns(self, thread: str, *, limit: int | None = None) -> list[Turn]:
        """Return the turns of a thread, oldest first; with `limit` only the newest."""
        return await self._readers.run(lambda db: queries.list_turns(db, thread, limit))

    async def thread_page(
        self, *, before: tuple[int, str] | None = None, cwd: str | None = None, limit: int
    ) -> list[ThreadInfo]:
        """Return the threads written before that time and thread, the newest first."""
        return await self._readers.run(lambda db: log_pages.page_threads(db, before, cwd, limit))

    async def family(self, thread: str, *, limit: int) -> list[ThreadInfo]:
        """Return the living threads that share a root with `thread`, the oldest first."""
        return await self._readers.run(lambda db: log_pages.find_family(db, thread, limit))

    async def holders(self, threads: Sequence[str]) -> dict[str, Holder]:
        """Return who said last that it writes these threads; it may have died since."""
        return await self._readers.run(lambda db: log_pages.find_holders(db, threads))

    async def turn_page(self, thread: str, *, before: int | None = None, limit: int) -> list[Turn]:
        """Return the newest turns with a number below `before`, oldest first."""
        return await self._readers.run(lambda db: log_pages.page_turns(db, thread, before, limit))

    async def read_kinds_back(
        self, thread: str, kinds: Collection[Kind], last: int, *, first: int = 1, limit: int
    ) -> list[Entry]:
        """Return the newest entries of these kinds from `last` down to `first`, newest first."""
        return await self._readers.run(
            lambda db: log_pages.read_kinds_back(db, thread, kinds, (first, last), limit)
        )

    async def read_told_back(
        self, thread: str, last: int, *, first: int = 1, limit: int
    ) -> list[Entry]:
        """Return the newest entries that tell fragments, from `last` down to `first`."""
        return await self._readers.run(
            lambda db: log_pages.read_told_back(db, thread, (first, last), limit)
        )

    async def put_blob(self, thread: str, data: bytes) -> str:
        """Store `data` for `thread` and return its digest (``sha256:`` and hex)."""

        def put(db: sqlite3.Connection) -> str:
            last = queries.thread_info(db, thread).last
            updates.store_blob(db, queries.thread_number(db, thread), last + 1, data)
            return blob_digest(data)

        return await self._write(put)

    async def blob(self, digest: str) -> bytes:
        """Return the bytes under `digest`."""
        return await self._readers.run(lambda db: queries.read_blob(db, digest))

    async def blobs(self, digests: Sequence[str]) -> list[bytes]:
        """Return the bytes under several digests in the order given, from one snapshot."""
        return await self._readers.run(
            lambda db: [queries.read_blob(db, digest) for digest in digests]
        )

    async def post(self, thread: str, message: InboxDraft) -> InboxMessage:
        """Send a message to the thread's writer. Needs no lease."""
        message = blank_value(message)
        return await self._write(lambda db: updates.post_message(db, thread, message, self._now()))

    async def inbox(self, thread: str) -> list[InboxMessage]:
        """Return the messages that wait, oldest first."""
        return await self._readers.run(lambda db: queries.list_inbox(db, thread))

    async def outbox(
        self, *, thread: str | None = None, topic: str | None = None
    ) -> list[OutboxRow]:
        """Return the rows that wait, oldest first."""
        return await self._readers.run(lambda db: queries.list_outbox(db, thread, topic))

    async def retry(self, row: int, error: str) -> None:
        """Count a failed attempt at an outbox row."""
        error = redact_known(error)
        await self._write(lambda db: updates.count_attempt(db, row, error, self._now()))

    async def waiting(self, *, limit: int) -> list[Work]:
        """Return threads with work whose lease looks free, the longest waiting first."""

        def free(db: sqlite3.Connection) -> list[Work]:
            # Who died is still named as the holder, but has no lock any more.
            found = queries.find_work(db)
            idle = (work for work, named in found if not (named and self._is_held(work.thread)))
            return list(islice(idle, limit))

        return await self._readers.run(free)

    async def read_rows(self, job: Callable[[LogDatabase], T]) -> T:
        """Return what a job finds, in one snapshot."""
        return await self._readers.run(job)

    async def write_rows(self, job: Callable[[LogDatabase], T]) -> T:
        """Return the result of a job in one durable transaction; it may be done twice."""
        return await self._write(job)

    async def find_damaged(self) -> list[str]:
        """Return the names of entries and blobs that are not as they were written; reads all."""
        return await self._readers.run(queries.find_damaged)

    async def close(self) -> None:
        """Release every lease, finish accepted changes, then close the files."""
        try:
            for lease in list(self._leases):
                await lease.release()
        finally:
            # Where the log cannot be written any more, the files are closed all the same.
            for lease in self._leases:
                lease.lock.release()
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # The writer closes last: the last connection writes the WAL into the file.
        self._readers.close()
        if isinstance(self._writer, LogWriter):
            self._writer.close()

    async def _write(
        self, job: Job[T], discard: Callable[[T], None] = keep_nothing, *, light: bool = False
    ) -> T:
        if not isinstance(self._writer, LogWriter):
            raise type(self._writer)(*self._writer.args)
        return await self._writer.run(job, discard, light=light)

    def _is_held(self, thread: str) -> bool:
        return self._lock(thread).is_held()

    def _lock(self, thread: str) -> FileLock:
        if "/" in thread or thread.startswith("."):
            raise NotFound("thread", thread)
        return FileLock(self.directory / "locks" / f"{thread}.lock")

    def _now(self) -> int:
        return int(self._clock() * 1000)
