"""Ledger queries: what is asked of the requests that an index has noted.

Owns the reading half of an index, for every database that has its tables. Invariant: each answer
comes from one read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from . import index_tables, ledger_pages
from .contract import LedgerRow, Segment
from .pages import LedgerBucket, LedgerTotals

__all__ = ["LedgerQueries"]

T = TypeVar("T")


class _Reads(Protocol):
    async def _read(self, query: Callable[[Any], T], /) -> T: ...


class LedgerQueries:
    """Reads requests by an index's own way to its tables."""

    async def rows(self: _Reads, thread: str) -> list[LedgerRow]:
        """Return the requests of a thread, oldest first."""
        return await self._read(lambda db: index_tables.thread_requests(db, thread))

    async def newest_row(self: _Reads, thread: str) -> LedgerRow | None:
        """Return the newest request of a thread."""
        return await self._read(lambda db: index_tables.newest_row(db, thread))

    async def newest_request(self: _Reads, thread: str) -> tuple[LedgerRow, list[Segment]] | None:
        """Return the newest request of a thread with all of its segments."""
        return await self._read(lambda db: index_tables.newest_request(db, thread))

    async def request_page(self: _Reads, thread: str, first: int, last: int) -> list[LedgerRow]:
        """Return the requests with the numbers `first` to `last`, both included."""
        return await self._read(lambda db: ledger_pages.page_requests(db, thread, first, last))

    async def request_after(self: _Reads, thread: str, seq: int) -> LedgerRow | None:
        """Return the first request that was noted after the entry `seq`."""
        return await self._read(lambda db: ledger_pages.request_after(db, thread, seq))

    async def breaks(
        self: _Reads, thread: str, *, before: int | None = None, limit: int
    ) -> list[LedgerRow]:
        """Return the newest requests below `before` whose prefix differs, newest first."""
        return await self._read(lambda db: ledger_pages.find_breaks(db, thread, before, limit))

    async def totals(self: _Reads, thread: str, *, after: int = 0) -> LedgerTotals:
        """Return the sums over the requests with a number above `after`."""
        return await self._read(lambda db: ledger_pages.sum_requests(db, thread, after))

    async def buckets(
        self: _Reads, thread: str, first: int, last: int, count: int
    ) -> list[LedgerBucket]:
        """Return the sums over `count` stretches of about the same length."""
        return await self._read(lambda db: ledger_pages.sum_buckets(db, thread, first, last, count))

    async def first_sent(self: _Reads, thread: str, number: int) -> list[int]:
        """Return since which request each segment of a request stands where it stands."""
        return await self._read(lambda db: ledger_pages.first_sent(db, thread, number))
