"""The index of threads in PostgreSQL.

Owns where its two halves are. The ledger is in the database, because the request before may have
been sent by another machine; words, and what answers used, are in a file of this machine, made
from the log: there a search needs no network. Invariant: both can be lost and built again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from ...core.errors import StoreClosed, TreadleError
from ...core.usage import TokenUsage
from .. import index_tables
from ..contract import (
    Hits,
    LedgerRow,
    Progress,
    Search,
    Segment,
)
from ..counted_usage import Counted, RequestUsage
from ..index import SqliteIndex
from ..ledger_queries import LedgerQueries
from ..search.coverage import IndexCoverage
from ..workers import DelayedWrites
from .connections import Connections, Job
from .database_connection import PostgresConnection
from .postgres_store import PostgresStore

__all__ = ["PostgresIndex"]

T = TypeVar("T")

_log = logging.getLogger("treadle.store")


class PostgresIndex(LedgerQueries):
    """The ledger in the database of `store`; search in `directory`, or in memory."""

    def __init__(self, store: PostgresStore, directory: Path | None) -> None:
        self._connections: Connections = store.connections
        self._local = SqliteIndex(store, directory)
        self._closed = False
        self._writing = threading.Lock()
        self._delayed: DelayedWrites[Job[None]] = DelayedWrites(
            lambda: self._connections.submit(self._write_delayed)
        )

    async def record(self, row: LedgerRow, segments: Sequence[Segment]) -> None:
        """Record one request; `segments` are those from `row.shared_segments` on."""

        def save(db: PostgresConnection) -> None:
            number = index_tables.ensure_thread_number(db, row.thread)
            index_tables.save_request(db, number, row, segments)

        self._write_later(save)

    async def record_usage(self, thread: str, seq: int, usage: TokenUsage) -> None:
        """Record what the provider reported of the request at `seq`."""

        def save(db: PostgresConnection) -> None:
            number = index_tables.ensure_thread_number(db, thread)
            index_tables.save_usage(db, number, seq, usage)

        self._write_later(save)

    async def usage_progress(self) -> dict[str, Counted]:
        """Return how far the answers of each thread are counted."""
        return await self._local.usage_progress()

    async def add_usages(
        self, thread: str, after: int, rows: Sequence[RequestUsage], now: Counted
    ) -> None:
        """Keep the answers of `thread` after the entry `after`, if it is counted up to there."""
        await self._local.add_usages(thread, after, rows, now)

    async def usages(
        self, *, since: int = 0, until: int | None = None, threads: Sequence[str] | None = None
    ) -> list[RequestUsage]:
        """Return the answers from `since` to before `until`, the oldest first."""
        return await self._local.usages(since=since, until=until, threads=threads)

    async def forget_usages(self, thread: str) -> None:
        """Delete what is known of a thread's answers."""
        await self._local.forget_usages(thread)

    async def search(
        self,
        query: Search | str,
        *,
        thread: str | None = None,
        limit: int = 20,
        catch_up: bool = True,
    ) -> Hits:
        """Find the entries that `query` asks for, in the order of its mode."""
        return await self._local.search(query, thread=thread, limit=limit, catch_up=catch_up)

    async def catch_up(
        self, threads: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> None:
        """Index all that is new in these threads, or everywhere."""
        await self._local.catch_up(threads, progress=progress)

    async def coverage(self) -> IndexCoverage:
        """Return how much of the living threads is indexed here."""
        return await self._local.coverage()

    def begin_indexing(self, home: Path, address: str | None = None, *, after: float = 5) -> None:
        """Index from then on what is not indexed here yet, in a process of its own."""
        self._local.begin_indexing(home, address, after=after)

    async def build_vectors(self, *, progress: Progress | None = None) -> None:
        """Give vectors to what is indexed here and has none."""
        await self._local.build_vectors(progress=progress)

    async def forget(self, thread: str | None = None) -> None:
        """Delete what is known of a thread, or everything: of the ledger for all machines."""
        self._ensure_open()

        def forget(db: PostgresConnection) -> None:
            known = "SELECT number FROM threads WHERE id = :thread OR CAST(:thread AS text) IS NULL"
            for table, key in (
                ("segments", "thread"),
                ("requests", "thread"),
                ("threads", "number"),
            ):
                db.execute(f"DELETE FROM {table} WHERE {key} IN ({known})", {"thread": thread})

        await self._connections.run(self._write_delayed)
        await self._connections.write(lambda db: forget(db.in_index()))
        await self._local.forget(thread)

    async def close(self) -> None:
        """Write what waits, then close the file."""
        self._delayed.stop()
        if not self._closed:
            self._closed = True
            try:
                await self._connections.run(self._write_delayed)
            except StoreClosed:
                self._delayed.take_all()
        await self._local.close()

    def _write_later(self, job: Job[None]) -> None:
        self._ensure_open()
        self._delayed.add(job)

    def _write_delayed(self) -> None:
        """Do the delayed writes in one transaction; what fails is lost, and can be rebuilt."""
        # Whoever finds nothing to write waits for who writes it: then it can be read.
        with self._writing:
            if not (jobs := self._delayed.take_all()):
                return

            def write(connection: PostgresConnection) -> None:
                with connection.transaction():
                    self._connections.set_durability(connection, light=True)
                    for job in jobs:
                        job(connection.in_index())

            try:
                self._connections.repeat(write)
            except TreadleError as error:
                mend = "treadle cache --rebuild mends it"
                _log.warning("the ledger misses a moment (%s): %s", mend, error)

    async def _read(self, job: Job[T]) -> T:
        self._ensure_open()

        def read() -> T:
            self._write_delayed()
            return self._connections.repeat(lambda db: job(db.in_index()))

        return await self._connections.run(read)

    def _ensure_open(self) -> None:
        if self._closed:
            raise StoreClosed("the index was closed; open it again")
