"""Reading a page at a time, for whoever shows a long thread.

Owns two small powers that a store and an index may have besides their contracts. Invariant:
what a page costs depends on the page, not on how long the thread is; only sums over all
requests of a thread read a short row of each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ..core.entries import Entry, Kind
from .contract import Holder, LedgerRow, ThreadInfo, Turn

__all__ = ["LedgerBucket", "LedgerTotals", "PagesLog", "PagesRequests"]


class LedgerTotals(Struct, frozen=True, kw_only=True):
    """Sums over some requests of a thread."""

    requests: int = 0
    sent: int = 0
    shared: int = 0
    breaks: int = 0
    unexplained: int = 0
    input_tokens: int | None = None
    """None where no provider said it."""
    cached_tokens: int | None = None


class LedgerBucket(LedgerTotals, frozen=True, kw_only=True):
    """Sums over the requests with the numbers `first` to `last`."""

    first: int
    last: int


@runtime_checkable
class PagesLog(Protocol):
    """A store that returns its threads, turns and entries a page at a time."""

    async def thread_page(
        self, *, before: tuple[int, str] | None = None, cwd: str | None = None, limit: int
    ) -> list[ThreadInfo]:
        """Return the threads written before that time and thread, the newest first."""
        ...

    async def family(self, thread: str, *, limit: int) -> list[ThreadInfo]:
        """Return the living threads that share a root with `thread`, the oldest first."""
        ...

    async def holders(self, threads: Sequence[str]) -> dict[str, Holder]:
        """Return who said last that it writes these threads; it may have died since."""
        ...

    async def turn_page(self, thread: str, *, before: int | None = None, limit: int) -> list[Turn]:
        """Return the newest turns with a number below `before`, oldest first."""
        ...

    async def read_kinds_back(
        self, thread: str, kinds: Collection[Kind], last: int, *, first: int = 1, limit: int
    ) -> list[Entry]:
        """Return the newest entries of these kinds from `last` down to `first`, newest first."""
        ...

    async def read_told_back(
        self, thread: str, last: int, *, first: int = 1, limit: int
    ) -> list[Entry]:
        """Return the newest entries that tell fragments, from `last` down to `first`."""
        ...


@runtime_checkable
class PagesRequests(Protocol):
    """An index that returns the requests of a thread a page at a time."""

    async def request_page(self, thread: str, first: int, last: int) -> list[LedgerRow]:
        """Return the requests with the numbers `first` to `last`, both included."""
        ...

    async def request_after(self, thread: str, seq: int) -> LedgerRow | None:
        """Return the first request that was noted after the entry `seq`."""
        ...

    async def breaks(
        self, thread: str, *, before: int | None = None, limit: int
    ) -> list[LedgerRow]:
        """Return the newest requests below `before` whose prefix differs, newest first."""
        ...

    async def totals(self, thread: str, *, after: int = 0) -> LedgerTotals:
        """Return the sums over the requests with a number above `after`."""
        ...

    async def buckets(self, thread: str, first: int, last: int, count: int) -> list[LedgerBucket]:
        """Return the sums over `count` stretches of about the same length."""
        ...

    async def first_sent(self, thread: str, number: int) -> list[int]:
        """Return since which request each segment of a request stands where it stands."""
        ...
