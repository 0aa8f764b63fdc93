"""The ledger: a record of every request, and an explanation of every prefix break.

Owns the comparison of a request with the one before it. Invariant: a prefix that
broke has an epoch entry that says why; one that has none is a defect, is logged as
an error and handed to every `watch`er.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from ..core.entries import BREAKING, Entry, Epoch, Reason
from ..store.contract import Index, LedgerRow, Segment, Store
from .request import HEAD_SEGMENTS, Request

__all__ = ["Comparison", "Ledger", "compare", "watch"]

_log = logging.getLogger("treadle.ledger")
_watchers: list[Callable[[LedgerRow], None]] = []


@contextmanager
def watch(watcher: Callable[[LedgerRow], None]) -> Iterator[None]:
    """Hand every unexplained break in this process to `watcher`."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


class Comparison(Struct, frozen=True):
    """How much of the request before stands at the start of this one."""

    segments: int
    difference: str | None = None
    """The first segment that differs, in words; None when the whole prefix holds."""


def compare(before: Sequence[Segment], now: Sequence[Segment]) -> Comparison:
    """Compare two requests by their chained digests.

    A chained digest covers all that came before it, so equality has one edge, and
    a held prefix shows in a single look.
    """
    reach = min(len(before), len(now))
    if reach and before[reach - 1].digest == now[reach - 1].digest:
        shared = reach
    else:
        shared = bisect_left(range(reach), True, key=lambda at: before[at].digest != now[at].digest)
    if shared == len(before):
        return Comparison(shared)
    return Comparison(shared, _describe(before[shared], now, shared))


def _describe(lost: Segment, now: Sequence[Segment], position: int) -> str:
    if lost.kind != "item":
        return lost.kind
    name = f"item {position - HEAD_SEGMENTS}"
    entry = f" (entry {lost.seq})" if lost.seq is not None else ""
    return f"{name}{entry} is gone" if position >= len(now) else f"{name}{entry}"


class Ledger(Struct):
    """The requests of one thread."""

    thread: str
    store: Store
    index: Index
    _loaded: bool = False
    """Whether the newest request is known; a thread without entries has sent none."""
    _before: LedgerRow | None = None
    _segments: Sequence[Segment] | None = None
    """Those of the request before, once it matters where they end."""

    async def newest(self) -> LedgerRow | None:
        """The newest request that it knows of."""
        if not self._loaded:
            self._before = await self.index.newest_row(self.thread)
            self._loaded = True
        return self._before

    async def record(self, request: Request, mark: Entry) -> LedgerRow:
        """Note that `request` is about to be sent; `mark` is its entry in the log."""
        row = await self._row(request, mark, await self.newest())
        self._before, self._segments = row, request.segments
        await self.index.record(row, request.segments[row.shared_segments :])
        if row.unexplained:
            _alarm(row)
        return row

    async def _compare(self, previous: LedgerRow | None, request: Request) -> Comparison:
        if previous is None:
            return Comparison(0)
        if previous.digest == request.digest_of(previous.segments):
            return Comparison(previous.segments)
        if self._segments is None:
            found = await self.index.newest_request(self.thread)
            self._segments = found[1] if found else ()
        return compare(self._segments, request.segments)

    async def _row(self, request: Request, mark: Entry, previous: LedgerRow | None) -> LedgerRow:
        same = await self._compare(previous, request)
        reason: str | None = None
        if previous is None:
            reason = Reason.START.value
        elif same.difference is not None:
            reason = await self._reason(previous.seq, request.upto)
        return LedgerRow(
            thread=self.thread,
            number=previous.number + 1 if previous else 1,
            seq=mark.seq,
            turn=mark.turn,
            step=mark.step,
            time=mark.time,
            epoch=request.epoch,
            segments=len(request.segments),
            size=len(request.body),
            digest=request.digest,
            shared_segments=same.segments,
            shared_size=request.ends[same.segments - 1] if same.segments else 0,
            reason=reason,
            difference=same.difference,
            unexplained=same.difference is not None and reason is None,
        )

    async def _reason(self, first: int, last: int) -> str | None:
        """The reasons the log gives for a break between two requests, oldest first."""
        entries = await self.store.read(self.thread, first, last)
        reasons = [_reason_of(entry) for entry in entries if entry.kind in BREAKING]
        return "+".join(dict.fromkeys(reasons)) or None


def _reason_of(entry: Entry) -> str:
    control = entry.control
    return (control.reason if isinstance(control, Epoch) else Reason.ROLLBACK).value


def _alarm(row: LedgerRow) -> None:
    _log.error(
        "request %d of thread %s broke its prefix at %s and no epoch entry says why; "
        "%d of %d bytes must be read again. This is a defect: please report it",
        row.number,
        row.thread,
        row.difference,
        row.size - row.shared_size,
        row.size,
    )
    for watcher in _watchers:
        watcher(row)
