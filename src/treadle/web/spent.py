"""What threads take and cost, counted beside the requests of the page.

Owns figures that only a whole log can tell. Invariants: nobody waits for them; each log is
read once, then only what is new of it; and nothing of that is written into the home.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from ..core.errors import TreadleError
from ..core.money import Bill
from ..log.bills import cost_of
from ..log.usages import UsageCounter
from ..store.contract import ThreadInfo
from .inspected_home import Remembered, ShownHome

__all__ = ["Figures", "ThreadSpending"]

_MOST_WAITING = 1_000
_AGAIN = 5.0
"""Seconds after which the size of a thread that grows is measured again."""


class Figures(Struct, frozen=True):
    """What is known of a thread."""

    bytes: int | None = None
    cost: Bill | None = None
    counting: bool = True
    """Whether there is more to know."""


class _Counted(Struct):
    counter: UsageCounter
    last: int = 0
    bill: Bill = Bill()
    bytes: int | None = None
    measured: float = 0.0


class ThreadSpending:
    """Counts what threads cost, one after the other."""

    def __init__(self, home: ShownHome, on_news: Callable[[str], None]) -> None:
        self._home, self._on_news = home, on_news
        self._known: Remembered[str, _Counted] = Remembered(500)
        self._waiting: dict[str, ThreadInfo] = {}
        self._task: asyncio.Task[None] | None = None

    def figures(self, info: ThreadInfo) -> Figures:
        """Return what is known of a thread; the rest is counted meanwhile."""
        known = self._known.get(info.id)
        if known is None or known.last < info.last:
            if len(self._waiting) < _MOST_WAITING:
                self._waiting[info.id] = info
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._count_all())
        if known is None:
            return Figures()
        # Before it was counted to an end once, nothing is known; that is not "nothing spent".
        cost = known.bill if known.last else None
        return Figures(known.bytes, cost, known.last < info.last)

    async def finish(self) -> None:
        """Wait until all that was asked for is counted."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def close(self) -> None:
        """Stop counting."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _count_all(self) -> None:
        while self._waiting:
            thread = next(iter(self._waiting))
            info = self._waiting.pop(thread)
            with suppress(TreadleError):
                await self._count(info)
                self._on_news(thread)

    async def _count(self, info: ThreadInfo) -> None:
        known = self._known.get(info.id)
        if known is None or known.last > info.last:
            known = self._known.put(info.id, _Counted(UsageCounter(self._home.store, info.id)))
        rows = await known.counter.count(info.last)
        known.bill += Bill.of(cost_of(row, self._home.prices) for row in rows)
        now = time.monotonic()
        if known.bytes is None or now - known.measured > _AGAIN:
            known.bytes = (await self._home.store.sizes([info.id])).get(info.id)
            known.measured = now
        # Last: until then there is more to know.
        known.last = info.last
