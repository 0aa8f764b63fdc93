"""Deliveries: what threads owe is carried to channels, in order, and as often as promised.

Owns the attempts and when they are made. Invariants: whoever delivers for a thread is its
writer, so that two processes never try one row at once; the replies of a turn reach a
channel in their order; a row leaves the outbox when it was delivered, or because its turn
is silent; a channel that does not recognise repeats is handed a row once, and a row whose
attempt a crash interrupted is blocked and reported, never shown twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.aio import finish_uncancelled
from ..core.errors import LeaseLost, NotFound, ThreadBusy, TreadleError
from ..core.redact import redact
from ..store.contract import OutboxRow, Store
from .channel import Channel, Delivery, HoldingChannel, Receipt
from .outbox import (
    TOPIC,
    BlockedDelivery,
    ChannelBacklog,
    DeliveryReport,
    LeasedOutbox,
    OutboxWriter,
    OwedReply,
    OwedTurn,
    ThreadBacklog,
    backlog_of,
    decode_row,
    delivery_of,
    merge_reports,
    retried_turn,
    row_in_state,
)
from .turn_replies import TurnReplies

__all__ = ["Deliveries", "DeliveryAttempt", "RetryTimes"]

_AT_ONCE = 8
_UNREADABLE = "a newer Treadle wrote it; deliver it with that one"
_IN_DOUBT = "it may have been shown; look at the thread, and try it again if it was not"


class RetryTimes(Struct):
    """When a delivery that failed is tried again.

    Waits double up to the longest; the receiver's own `retry_after` comes first. The outbox
    has the number of attempts and the time of the last, so that a new process waits no less.
    """

    first: float = 1.0
    longest: float = 300.0
    longest_requested: float = 3600.0
    _requested: dict[int, float] = field(default_factory=dict)

    def set_requested(self, row: int, now: float, seconds: float | None) -> None:
        """Store the wait that the receiver asked for; None deletes it."""
        if seconds is None:
            self._requested.pop(row, None)
        else:
            self._requested[row] = now + min(max(seconds, 0.0), self.longest_requested)

    def due(self, row: OutboxRow) -> float:
        """Return when to try a row; in the past for one that was never tried."""
        if row.attempts == 0:
            return 0.0
        wait = min(self.first * 2.0 ** min(row.attempts - 1, 32), self.longest)
        return self._requested.get(row.number, row.updated / 1000 + wait)


class Deliveries(Struct):
    """Carries what threads owe to channels, which the rows call by name.

    A thread that is open in this process is attached with its writer; others are leased for
    as long as an attempt takes. Use one of these for each store and process.
    """

    store: Store
    channels: Mapping[str, Channel]
    readable: Callable[[str], bool] | None = None
    """Decides which local files may be sent as media."""
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    retry_times: RetryTimes = field(default_factory=RetryTimes)
    attempt_timeout: float = 60.0
    """The longest that one attempt may take, in seconds."""
    _open: dict[str, OutboxWriter] = field(default_factory=dict)
    _draining: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        for channel in self.channels.values():
            if isinstance(channel, HoldingChannel):
                channel.bind(self.acknowledge)

    def attach(self, thread: str, writer: OutboxWriter) -> None:
        """Use `writer`, such as a log, for a thread that this process has open."""
        self._open[thread] = writer

    def detach(self, thread: str) -> None:
        """Forget a thread that is closed here; the next process that opens it goes on."""
        self._open.pop(thread, None)
        for channel in self.channels.values():
            if isinstance(channel, HoldingChannel):
                channel.withdraw(thread)

    async def drain(self, *threads: str) -> DeliveryReport:
        """Try once every delivery that is due, everywhere or in these threads only."""
        async with self._draining:
            rows = await self.store.outbox(topic=TOPIC)
            names = dict.fromkeys(row.thread for row in rows if row.state != "blocked")
            wanted = [name for name in names if not threads or name in threads]
            return merge_reports(
                await _gather(partial(self._drain_thread, name) for name in wanted)
            )

    async def run(self, *threads: str, timeout: float | None = None) -> DeliveryReport:  # noqa: ASYNC109 - by our own clock
        """Drain, and wait for what is due later, until nothing is or `timeout` has passed."""
        until = None if timeout is None else self.clock() + timeout
        before = DeliveryReport()
        while True:
            newest = await self.drain(*threads)
            if newest.due is None or (until is not None and newest.due > until):
                return merge_reports([before, newest])
            # Only what the pass has done is added up, not what waits after it.
            done = replace(newest, held=0, pending=0, due=None, busy=())
            before = merge_reports([before, done])
            await self.sleep(max(newest.due - self.clock(), 0.0))

    async def list_blocked(self) -> list[BlockedDelivery]:
        """Return the blocked deliveries with their reasons, oldest first."""
        rows = await self.store.outbox(topic=TOPIC)
        return [BlockedDelivery(row.key, row.error or "") for row in rows if row.state == "blocked"]

    async def retry(self, key: str) -> None:
        """Try a blocked delivery once more. Raises `NotFound` if `key` is not blocked."""
        rows = await self.store.outbox(topic=TOPIC)
        row = next((row for row in rows if row.key == key and row.state == "blocked"), None)
        if row is None:
            raise NotFound("blocked delivery", key, "list them with `list_blocked`")
        owed = decode_row(row)
        if isinstance(owed, OwedTurn):
            again = retried_turn(row, owed)
        else:
            again = row_in_state(row, "accepted")
        async with self._changing(row.thread) as writer:
            await writer.queue(again)
        self.retry_times.set_requested(row.number, self.clock(), 0.0)

    async def acknowledge(self, delivery: Delivery) -> None:
        """Remove a held delivery from the outbox; it is gone when this returns."""
        rows = await self.store.outbox(thread=delivery.thread, topic=TOPIC)
        numbers = [row.number for row in rows if row.key == delivery.key]
        if numbers:
            async with self._changing(delivery.thread) as writer:
                await finish_uncancelled(writer.queue(settle=numbers))

    @asynccontextmanager
    async def _changing(self, thread: str) -> AsyncIterator[OutboxWriter]:
        """Yield the writer of a thread, when no pass of ours uses it."""
        async with AsyncExitStack() as stack:
            if thread not in self._open:
                await stack.enter_async_context(self._draining)
            yield await stack.enter_async_context(self._writing(thread))

    @asynccontextmanager
    async def _writing(self, thread: str) -> AsyncIterator[OutboxWriter]:
        """Yield the writer of a thread; take a lease if it is not open here."""
        if (writer := self._open.get(thread)) is not None:
            yield writer
            return
        lease = await self.store.acquire(thread)
        try:
            yield LeasedOutbox(self.store, lease)
        finally:
            await finish_uncancelled(lease.release())

    async def _drain_thread(self, thread: str) -> DeliveryReport:
        try:
            backlog = await self._backlog(thread)
            if not self._has_work(backlog):
                waiting = map(self._waiting, backlog.channels)
                return merge_reports([DeliveryReport(pending=len(backlog.turns)), *waiting])
            async with self._writing(thread) as writer:
                resolved = await self._resolve_turns(thread, writer)
                return merge_reports([resolved, await self._deliver(thread, writer)])
        except (ThreadBusy, LeaseLost):
            return DeliveryReport(busy=(thread,))
        except NotFound:
            # Somebody has deleted the thread, and its rows with it.
            return DeliveryReport()

    async def _backlog(self, thread: str) -> ThreadBacklog:
        return backlog_of(await self.store.outbox(thread=thread, topic=TOPIC))

    async def _resolve_turns(self, thread: str, writer: OutboxWriter) -> DeliveryReport:
        """Replace the rows of ended turns by those of their replies."""
        backlog, turns = await self._backlog(thread), self._turn_replies
        reports = [await turns.block(row, _UNREADABLE, writer) for row in backlog.unreadable]
        for row, owed in backlog.turns:
            if turns.can_resolve(owed):
                reports.append(await finish_uncancelled(turns.resolve(row, owed, writer)))
        return merge_reports(reports)

    async def _deliver(self, thread: str, writer: OutboxWriter) -> DeliveryReport:
        """Deliver to every channel; they do not wait for each other."""
        backlog = await self._backlog(thread)
        done = await _gather(
            partial(self._deliver_to_channel, each, writer) for each in backlog.channels
        )
        return merge_reports([DeliveryReport(pending=len(backlog.turns)), *done])

    async def _deliver_to_channel(
        self, backlog: ChannelBacklog, writer: OutboxWriter
    ) -> DeliveryReport:
        """Deliver the replies for one channel, up to the first that has to wait."""
        if not self._is_due(backlog):
            return self._waiting(backlog)
        channel = self.channels[backlog.channel]
        attempt = DeliveryAttempt(channel, self.store, writer, self.attempt_timeout)
        reports = []
        for place, (row, owed) in enumerate(backlog.owed):
            receipt = await attempt.run(row, owed)
            self.retry_times.set_requested(row.number, self.clock(), receipt.retry_after)
            if receipt.state == "failed":
                due = await self._next_due(row)
                reports.append(DeliveryReport(pending=len(backlog.owed) - place, due=due))
                break
            reports.append(_report(row, receipt))
        return merge_reports(reports)

    async def _next_due(self, row: OutboxRow) -> float | None:
        """Return when to try a row again, by its state in the outbox now."""
        rows = await self.store.outbox(thread=row.thread, topic=TOPIC)
        return min(
            (self.retry_times.due(each) for each in rows if each.key == row.key), default=None
        )

    @property
    def _turn_replies(self) -> TurnReplies:
        return TurnReplies(self.store, self.channels, self.readable)

    def _has_work(self, backlog: ThreadBacklog) -> bool:
        can_resolve = any(self._turn_replies.can_resolve(owed) for _, owed in backlog.turns)
        return can_resolve or bool(backlog.unreadable) or any(map(self._is_due, backlog.channels))

    def _is_due(self, backlog: ChannelBacklog) -> bool:
        return self._is_reachable(backlog) and self.retry_times.due(backlog.first) <= self.clock()

    def _is_reachable(self, backlog: ChannelBacklog) -> bool:
        channel = self.channels.get(backlog.channel)
        return channel is not None and (
            not isinstance(channel, HoldingChannel) or backlog.first.thread in self._open
        )

    def _waiting(self, backlog: ChannelBacklog) -> DeliveryReport:
        due = self.retry_times.due(backlog.first) if self._is_reachable(backlog) else None
        return DeliveryReport(pending=len(backlog.owed), due=due)


class DeliveryAttempt(Struct):
    """Hands one row to its channel and records the result in the outbox."""

    channel: Channel
    store: Store
    writer: OutboxWriter
    timeout: float

    async def run(self, row: OutboxRow, owed: OwedReply) -> Receipt:
        """Deliver one row; return the receipt once the outbox has it."""
        if not self.channel.deduplicates:
            return await finish_uncancelled(self._run_once(row, owed))
        receipt = await self._hand_over(row, owed)
        await finish_uncancelled(self._record(row, receipt))
        return receipt

    async def _run_once(self, row: OutboxRow, owed: OwedReply) -> Receipt:
        if row.state == "ready":
            receipt = Receipt("refused", f"the process ended while it was delivered: {_IN_DOUBT}")
        else:
            await self.writer.queue(row_in_state(row, "ready"))
            receipt = await self._hand_over(row, owed)
        await self._record(row, receipt)
        return receipt

    async def _hand_over(self, row: OutboxRow, owed: OwedReply) -> Receipt:
        try:
            async with asyncio.timeout(self.timeout):
                receipt = await self.channel.deliver(delivery_of(row, owed))
                return replace(receipt, detail=redact(receipt.detail))
        except TimeoutError:
            reason = f"the channel gave no receipt within {self.timeout:g} s"
        except TreadleError as error:
            reason = redact(str(error))
        except Exception as error:  # noqa: BLE001 - a channel is anybody's code
            # Its text may hold what only the channel should know.
            reason = f"the channel raised {type(error).__name__}"
        if self.channel.deduplicates:
            return Receipt("failed", reason)
        return Receipt("refused", f"{reason}: {_IN_DOUBT}")

    async def _record(self, row: OutboxRow, receipt: Receipt) -> None:
        if receipt.state == "delivered":
            await self.writer.queue(settle=(row.number,))
        elif receipt.state == "refused":
            await self._count_attempt(row, receipt)
            await self.writer.queue(row_in_state(row, "blocked"))
        elif receipt.state == "failed":
            await self._count_attempt(row, receipt)
            if not self.channel.deduplicates:
                await self.writer.queue(row_in_state(row, "accepted"))

    async def _count_attempt(self, row: OutboxRow, receipt: Receipt) -> None:
        with suppress(NotFound):
            await self.store.retry(row.number, receipt.detail or "no reason was given")


async def _gather(
    work: Iterable[Callable[[], Awaitable[DeliveryReport]]],
) -> list[DeliveryReport]:
    """Run several at once. All have ended when this returns, also when one has failed."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def run_one(each: Callable[[], Awaitable[DeliveryReport]]) -> DeliveryReport:
        async with few:
            return await each()

    done = await asyncio.gather(*map(run_one, work), return_exceptions=True)
    for report in done:
        if isinstance(report, BaseException):
            raise report
    return [report for report in done if isinstance(report, DeliveryReport)]


def _report(row: OutboxRow, receipt: Receipt) -> DeliveryReport:
    if receipt.state == "refused":
        return DeliveryReport(blocked=(BlockedDelivery(row.key, receipt.detail),))
    if receipt.state == "delivered":
        return DeliveryReport(delivered=1)
    return DeliveryReport(held=1)
