"""Draining: what is owed is carried out, in order, and as often as was promised.

Owns the attempts. Invariants: whoever delivers for a thread is its writer, so that two
processes never try one row at once; the replies of a turn reach a channel in their order;
a row leaves the outbox when it was delivered, and for no other reason than silence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec
from msgspec import Struct, field

from ..core.aio import finish_uncancelled
from ..core.errors import LeaseLost, NotFound, ThreadBusy
from ..store.contract import OutboxRow, Store
from .attempt import Attempt, Leased, Writer
from .channel import Channel, Delivery, Holds, Receipt
from .lanes import Lane, Sorted, sort_rows
from .outbox import TOPIC, OwedTurn, moved, read_row
from .reports import Aside, Drained, merged
from .unfolding import Unfolding
from .waits import Waits

__all__ = ["Deliveries"]

_AT_ONCE = 8
_UNREADABLE = "a newer Treadle wrote it; deliver it with that one"


class Deliveries(Struct):
    """Carries what threads owe to channels, by the names that the rows call them.

    A thread that is open in this process is attached by its writer; others are leased for
    as long as an attempt takes. Use one of these for each store and process.
    """

    store: Store
    channels: Mapping[str, Channel]
    readable: Callable[[str], bool] | None = None
    """Which local files may be sent as media."""
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    waits: Waits = field(default_factory=Waits)
    seconds: float = 60.0
    """The longest that one attempt may take."""
    _open: dict[str, Writer] = field(default_factory=dict)
    _draining: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        for channel in self.channels.values():
            if isinstance(channel, Holds):
                channel.bind(self.acknowledge)

    def attach(self, thread: str, writer: Writer) -> None:
        """Use `writer`, such as a log, for a thread that this process has open."""
        self._open[thread] = writer

    def detach(self, thread: str) -> None:
        """The thread is closed here; what nobody has taken waits for whoever opens it next."""
        self._open.pop(thread, None)
        for channel in self.channels.values():
            if isinstance(channel, Holds):
                channel.withdraw(thread)

    async def drain(self, *threads: str) -> Drained:
        """Try once whatever is due, everywhere or in these threads only."""
        async with self._draining:
            rows = await self.store.outbox(topic=TOPIC)
            names = dict.fromkeys(row.thread for row in rows if row.state != "blocked")
            wanted = [name for name in names if not threads or name in threads]
            return merged(await _all(partial(self._thread, name) for name in wanted))

    async def run(self, *threads: str, patience: float | None = None) -> Drained:
        """Drain, and wait for what is due later, until nothing is or `patience` is used up."""
        until = None if patience is None else self.clock() + patience
        before = Drained()
        while True:
            newest = await self.drain(*threads)
            if newest.due is None or (until is not None and newest.due > until):
                return merged([before, newest])
            before = merged([before, _lasting(newest)])
            await self.sleep(max(newest.due - self.clock(), 0.0))

    async def aside(self) -> list[Aside]:
        """What was put aside and why, oldest first."""
        rows = await self.store.outbox(topic=TOPIC)
        return [Aside(row.key, row.error or "") for row in rows if row.state == "blocked"]

    async def again(self, key: str) -> None:
        """Try once more what was put aside. Raises `NotFound` when nothing is, under `key`."""
        rows = await self.store.outbox(topic=TOPIC)
        row = next((row for row in rows if row.key == key and row.state == "blocked"), None)
        if row is None:
            raise NotFound("delivery put aside", key, "list them with `aside`")
        owes_turn = isinstance(read_row(row), OwedTurn)
        async with self._changing(row.thread) as writer:
            await writer.queue(moved(row, "admitted" if owes_turn else "accepted"))
        self.waits.wish(row.number, self.clock(), 0.0)

    async def acknowledge(self, delivery: Delivery) -> None:
        """A delivery that was held is done; it is when this returns."""
        rows = await self.store.outbox(thread=delivery.thread, topic=TOPIC)
        numbers = [row.number for row in rows if row.key == delivery.key]
        if numbers:
            async with self._changing(delivery.thread) as writer:
                await finish_uncancelled(writer.queue(settle=numbers))

    @asynccontextmanager
    async def _changing(self, thread: str) -> AsyncIterator[Writer]:
        """The writer of a thread, when no pass of ours has it."""
        async with AsyncExitStack() as stack:
            if thread not in self._open:
                await stack.enter_async_context(self._draining)
            yield await stack.enter_async_context(self._writing(thread))

    @asynccontextmanager
    async def _writing(self, thread: str) -> AsyncIterator[Writer]:
        """The writer of a thread; a lease where it is not open here."""
        if (writer := self._open.get(thread)) is not None:
            yield writer
            return
        lease = await self.store.acquire(thread)
        try:
            yield Leased(self.store, lease)
        finally:
            await finish_uncancelled(lease.release())

    async def _thread(self, thread: str) -> Drained:
        try:
            found = await self._sorted(thread)
            if not self._has_work(found):
                return self._waiting(found)
            async with self._writing(thread) as writer:
                unfolded = await self._unfold(thread, writer)
                return merged([unfolded, await self._deliver(thread, writer)])
        except (ThreadBusy, LeaseLost):
            return Drained(busy=(thread,))
        except NotFound:
            # Somebody has deleted the thread, and its rows with it.
            return Drained()

    async def _sorted(self, thread: str) -> Sorted:
        return sort_rows(await self.store.outbox(thread=thread, topic=TOPIC))

    async def _unfold(self, thread: str, writer: Writer) -> Drained:
        """Make replies of the turns that have ended."""
        found = await self._sorted(thread)
        unfolding = self._unfolding
        reports = [await unfolding.put_aside(row, _UNREADABLE, writer) for row in found.unreadable]
        for row, owed in found.turns:
            if unfolding.can(owed):
                reports.append(await finish_uncancelled(unfolding.unfold(row, owed, writer)))
        return merged(reports)

    async def _deliver(self, thread: str, writer: Writer) -> Drained:
        """Try every lane; they do not wait for each other."""
        found = await self._sorted(thread)
        done = await _all(partial(self._lane, lane, writer) for lane in found.lanes)
        return merged([Drained(pending=len(found.turns)), *done])

    async def _lane(self, lane: Lane, writer: Writer) -> Drained:
        """One channel's replies, up to the first that has to wait."""
        if not self._is_due(lane):
            return self._waiting_in(lane)
        attempt = Attempt(self.channels[lane.channel], self.store, writer, self.seconds)
        reports = []
        for place, (row, owed) in enumerate(lane.owed):
            receipt = await attempt.make(row, owed)
            self.waits.wish(row.number, self.clock(), receipt.retry_after)
            if receipt.state == "failed":
                due = await self._due_again(row)
                reports.append(Drained(pending=len(lane.owed) - place, due=due))
                break
            reports.append(_report(row, receipt))
        return merged(reports)

    async def _due_again(self, row: OutboxRow) -> float | None:
        """When to try a row again, by what the outbox now says of it."""
        rows = await self.store.outbox(thread=row.thread, topic=TOPIC)
        return min((self.waits.due(each) for each in rows if each.key == row.key), default=None)

    @property
    def _unfolding(self) -> Unfolding:
        return Unfolding(self.store, self.channels, self.readable)

    def _has_work(self, found: Sorted) -> bool:
        unfolds = any(self._unfolding.can(owed) for _, owed in found.turns)
        return unfolds or bool(found.unreadable) or any(map(self._is_due, found.lanes))

    def _is_due(self, lane: Lane) -> bool:
        return self._is_reachable(lane) and self.waits.due(lane.first) <= self.clock()

    def _is_reachable(self, lane: Lane) -> bool:
        channel = self.channels.get(lane.channel)
        return channel is not None and (
            not isinstance(channel, Holds) or lane.first.thread in self._open
        )

    def _waiting(self, found: Sorted) -> Drained:
        lanes = map(self._waiting_in, found.lanes)
        return merged([Drained(pending=len(found.turns)), *lanes])

    def _waiting_in(self, lane: Lane) -> Drained:
        due = self.waits.due(lane.first) if self._is_reachable(lane) else None
        return Drained(pending=len(lane.owed), due=due)


async def _all(work: Iterable[Callable[[], Awaitable[Drained]]]) -> list[Drained]:
    """Several at once. All have ended when this does, also when one has failed."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(each: Callable[[], Awaitable[Drained]]) -> Drained:
        async with few:
            return await each()

    done = await asyncio.gather(*map(one, work), return_exceptions=True)
    for report in done:
        if isinstance(report, BaseException):
            raise report
    return [report for report in done if isinstance(report, Drained)]


def _report(row: OutboxRow, receipt: Receipt) -> Drained:
    if receipt.state == "refused":
        return Drained(aside=(Aside(row.key, receipt.detail),))
    return Drained(delivered=1) if receipt.state == "delivered" else Drained(held=1)


def _lasting(report: Drained) -> Drained:
    """What a pass has done, without how things stood behind it."""
    return msgspec.structs.replace(report, held=0, pending=0, due=None, busy=())
