from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw, structs

from treadle.core.entries import Draft, ResponseMark, control_draft
from treadle.core.errors import NotFound
from treadle.core.loopback import LoopbackResponse
from treadle.delivery.channel import Channel, Receipt, Reply
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.channels.webhook import WebhookChannel
from treadle.delivery.decision import NO_VISIBLE_REPLY, NOT_DELIVERED, TurnFacts
from treadle.delivery.deliveries import Deliveries
from treadle.delivery.outbox import TOPIC, BlockedDelivery, DeliveryReport, LeasedOutbox, reply_rows
from treadle.models.transport import AsyncTransport
from treadle.store import Change, MemoryStore, SqliteStore
from treadle.store.contract import THIS_TURN, OutboxDraft, Store
from treadle.testing.contracts.drafts import append

from .scenes import Board, Clock, Receiver, answers, tell

SECRET = "planted-secret-9a8b7c"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def store(tmp_path, clock):
    async with await SqliteStore.open(tmp_path, clock=clock) as store:
        yield store


@pytest.fixture
async def thread(store):
    return (await store.create()).id


def deliveries_to(store: Store, clock: Clock, **channels: Channel) -> Deliveries:
    return Deliveries(store, channels, clock=clock, sleep=clock.sleep)


async def test_a_turn_is_told_once(store, thread, clock):
    board = Board()
    deliveries = deliveries_to(store, clock, board=board)
    await tell(store, thread, answers("Let me see.", phase="commentary"), "Done.")
    assert await deliveries.drain() == DeliveryReport(delivered=1)
    assert await deliveries.drain() == DeliveryReport()
    assert (board.shown, board.tried) == (["Done."], [f"{thread}.1.final"])
    assert await store.outbox() == []


async def test_a_store_in_memory_serves_as_well(clock):
    store = MemoryStore(clock=clock)
    thread = (await store.create()).id
    board = Board()
    await tell(store, thread, "Done.")
    assert await deliveries_to(store, clock, board=board).drain() == DeliveryReport(delivered=1)
    assert board.shown == ["Done."]


async def test_silent_aborted_and_denied_turns_tell_nothing(store, thread, clock):
    board = Board()
    await tell(store, thread, "NO_REPLY")
    await tell(store, thread, '{"action": "NO_REPLY"}')
    await tell(store, thread, "Half", state="aborted")
    await tell(store, thread, "Secret", facts=TurnFacts(sends="deny"))
    assert await deliveries_to(store, clock, board=board).drain() == DeliveryReport(suppressed=4)
    assert board.tried == []
    assert await store.outbox() == []


async def test_media_survive_a_silent_text(store, thread, clock):
    board = Board()
    await tell(store, thread, "NO_REPLY\nMEDIA:https://example.com/a.png")
    await deliveries_to(store, clock, board=board).drain()
    assert board.replies == [Reply(media=("https://example.com/a.png",))]


async def test_a_failed_turn_tells_why(store, thread, clock):
    board = Board()
    mark = ResponseMark(1, "failed", error="the provider answered 500")
    failed = control_draft(mark, turn=THIS_TURN, step=1)
    await tell(store, thread, "Half an answer", failed, state="failed")
    await tell(store, thread, facts=TurnFacts())
    await deliveries_to(store, clock, board=board).drain()
    assert board.shown == ["the provider answered 500", NO_VISIBLE_REPLY]


async def test_a_long_turn_is_read_back_to_its_answer(store, thread, clock):
    board = Board()
    asides = [answers(f"{number}", phase="commentary") for number in range(150)]
    await tell(store, thread, "The answer.", *asides)
    await tell(store, thread, *asides)
    await deliveries_to(store, clock, board=board).drain()
    assert board.shown == ["The answer.", "149"]


async def test_an_incomplete_origin_leaves_the_reply_to_the_dispatcher(store, thread, clock):
    board, host = Board(), Board()
    deliveries = deliveries_to(store, clock, board=board, host=host)
    await tell(store, thread, "one", dispatcher="host")
    await tell(store, thread, "two", to="", dispatcher="host")
    await tell(store, thread, "three", channel="elsewhere", dispatcher="host")
    assert await deliveries.drain() == DeliveryReport(delivered=3)
    assert (board.shown, host.shown) == (["one"], ["two", "three"])


async def test_a_turn_from_nowhere_is_kept_in_its_thread_and_told_as_unrouted(store, thread, clock):
    await tell(store, thread, "To nobody.", channel="", to="")
    assert await deliveries_to(store, clock).drain() == DeliveryReport(
        unrouted=(BlockedDelivery(f"{thread}.1.turn", "no-route"),)
    )


async def test_what_goes_to_a_channel_that_is_not_here_waits(store, thread, clock):
    await tell(store, thread, "Later.")
    assert await deliveries_to(store, clock).drain() == DeliveryReport(pending=1)
    board = Board()
    await deliveries_to(store, clock, board=board).drain()
    assert board.shown == ["Later."]


async def test_several_replies_of_one_turn_keep_their_order_and_have_keys_of_their_own(
    store, thread, clock
):
    board = Board()
    replies = [Reply(text=f"{n}", kind="block") for n in range(12)] + [Reply(text="end")]
    rows = reply_rows(thread, 1, [(reply, "board", "") for reply in replies])
    await append(store, thread, Change(outbox=tuple(reversed(rows))))
    await deliveries_to(store, clock, board=board).drain()
    assert board.shown == [*map(str, range(12)), "end"]
    assert board.tried[:3] == [f"{thread}.1.block", f"{thread}.1.block.2", f"{thread}.1.block.3"]
    assert board.tried[-1] == f"{thread}.1.final"


async def test_a_reply_that_has_to_wait_keeps_those_behind_it_but_no_other_channel(
    store, thread, clock
):
    slow, quick = Board(deduplicates=True), Board()
    slow.answer = lambda given: Receipt("failed" if given.turn == 1 else "delivered", "busy")
    deliveries = deliveries_to(store, clock, slow=slow, quick=quick)
    for name in ("slow", "quick", "slow", "quick"):
        await tell(store, thread, name, channel=name)
    assert await deliveries.drain() == DeliveryReport(delivered=2, pending=2, due=clock.now + 1)
    assert (slow.shown, quick.shown) == ([], ["quick", "quick"])
    slow.answer = lambda _: Receipt("delivered")
    assert await deliveries.drain() == DeliveryReport(pending=2, due=clock.now + 1)
    assert await deliveries.run() == DeliveryReport(delivered=2, pending=0)
    assert slow.tried == [f"{thread}.{turn}.final" for turn in (1, 1, 3)]


async def test_waits_double_up_to_the_longest_and_survive_a_restart(store, thread, clock):
    board = Board(deduplicates=True)
    board.answer = lambda _: Receipt("failed" if len(board.tried) < 12 else "delivered")
    await tell(store, thread, "Done.")
    await deliveries_to(store, clock, board=board).run(timeout=10)
    assert await deliveries_to(store, clock, board=board).run() == DeliveryReport(delivered=1)
    assert clock.slept == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert board.shown == ["Done."]


async def test_the_receivers_wish_comes_before_our_own_waits(store, thread, clock):
    board = Board(deduplicates=True)
    wishes = iter([Receipt("failed", "busy", 90.0), Receipt("failed", "busy", 10**9)])
    board.answer = lambda _: next(wishes, Receipt("delivered"))
    await tell(store, thread, "Done.")
    await deliveries_to(store, clock, board=board).run()
    assert clock.slept == [90, 3600]


async def test_a_channel_that_recognises_nothing_is_tried_again_only_when_nothing_was_shown(
    store, thread, clock
):
    board = Board()
    board.answer = lambda _: Receipt("failed" if len(board.tried) < 3 else "delivered")
    await tell(store, thread, "Done.")
    assert await deliveries_to(store, clock, board=board).run() == DeliveryReport(delivered=1)
    assert (board.shown, len(board.tried)) == (["Done."], 3)


async def test_a_channel_that_raises_or_hangs_is_tried_again_where_repeats_are_recognised(
    store, thread, clock
):
    class Bad(Board):
        async def deliver(self, delivery, /):
            if len(self.tried) == 0:
                self.tried.append(delivery.key)
                raise RuntimeError(SECRET)
            if len(self.tried) == 1:
                self.tried.append(delivery.key)
                await asyncio.sleep(60)
            return await super().deliver(delivery)

    board = Bad(deduplicates=True)
    deliveries = Deliveries(
        store, {"board": board}, clock=clock, sleep=clock.sleep, attempt_timeout=0.05
    )
    await tell(store, thread, "Done.")
    await deliveries.drain()
    (row,) = await store.outbox()
    assert row.error == "the channel raised RuntimeError"
    assert await deliveries.run() == DeliveryReport(delivered=1)
    assert board.shown == ["Done."]


async def test_a_channel_that_raises_in_the_middle_is_not_shown_twice(store, thread, clock):
    class Torn(Board):
        async def deliver(self, delivery, /):
            await super().deliver(delivery)
            raise RuntimeError(SECRET)

    board = Torn()
    deliveries = deliveries_to(store, clock, board=board)
    await tell(store, thread, "Done.")
    report = await deliveries.run()
    assert [each.key for each in report.blocked] == [f"{thread}.1.final"]
    assert "it may have been shown" in report.blocked[0].reason
    assert SECRET not in str(report)
    await deliveries.run()
    assert board.shown == ["Done."]


async def test_what_was_handed_over_when_the_process_ended_is_in_doubt_and_not_shown_again(
    store, thread, clock
):
    board = Board()
    deliveries = deliveries_to(store, clock, board=board)
    states: list[str] = []

    class Looking(Board):
        async def deliver(self, delivery, /):
            states.extend(row.state for row in await store.outbox(topic=TOPIC))
            return await super().deliver(delivery)

    await tell(store, thread, "seen")
    await deliveries_to(store, clock, board=Looking()).drain()
    assert states == ["ready"]
    (row,) = reply_rows(thread, 2, [(Reply(text="in doubt"), "board", "")])
    await append(store, thread, Change(outbox=(structs.replace(row, state="ready"),)))
    (blocked,) = (await deliveries.drain()).blocked
    assert (blocked.key, board.tried) == (f"{thread}.2.final", [])
    assert "the process ended while it was delivered" in blocked.reason
    await deliveries.retry(blocked.key)
    await deliveries.drain()
    assert board.shown == ["in doubt"]


async def test_a_refusal_is_put_aside_told_and_can_be_tried_again(store, thread, clock):
    board = Board(deduplicates=True)
    board.answer = lambda given: Receipt("refused" if given.turn == 1 else "delivered", "gone")
    deliveries = deliveries_to(store, clock, board=board)
    await tell(store, thread, "one")
    await tell(store, thread, "two")
    blocked = BlockedDelivery(f"{thread}.1.final", "gone")
    assert await deliveries.run() == DeliveryReport(delivered=1, blocked=(blocked,))
    assert await deliveries.run() == DeliveryReport()
    assert await deliveries.list_blocked() == [blocked]
    board.answer = lambda _: Receipt("delivered")
    await deliveries.retry(blocked.key)
    assert await deliveries.run() == DeliveryReport(delivered=1)
    assert board.shown == ["two", "one"]
    with pytest.raises(NotFound, match="no blocked delivery"):
        await deliveries.retry(blocked.key)


async def test_an_answer_that_a_turn_left_unsent_is_put_aside(store, thread, clock):
    board = Board()
    deliveries = deliveries_to(store, clock, board=board)
    await tell(store, thread, "Unsent.", facts=TurnFacts(visible="tool-only"))
    report = await deliveries.drain()
    assert [each.key for each in report.blocked] == [f"{thread}.1.turn"]
    assert "run the turn again" in report.blocked[0].reason
    await deliveries.retry(f"{thread}.1.turn")
    assert (await deliveries.drain()).delivered == 1
    assert board.shown == [NOT_DELIVERED]


async def test_a_row_of_a_newer_treadle_is_put_aside_and_kept(store, thread, clock):
    row = OutboxDraft(topic=TOPIC, key="k", body=Raw(b'{"type":"hologram"}'), state="accepted")
    await append(store, thread, Change(outbox=(row,)))
    board = Board()
    await tell(store, thread, "Done.")
    deliveries = deliveries_to(store, clock, board=board)
    report = await deliveries.drain()
    assert report == DeliveryReport(
        delivered=1,
        blocked=(BlockedDelivery("k", "a newer Treadle wrote it; deliver it with that one"),),
    )
    assert [(row.key, row.state) for row in await store.outbox()] == [("k", "blocked")]
    await deliveries.retry("k")
    assert (await deliveries.drain()).blocked == report.blocked


async def test_a_thread_that_somebody_else_writes_is_left_to_them(store, thread, clock):
    board = Board()
    deliveries = deliveries_to(store, clock, board=board)
    await tell(store, thread, "Done.")
    lease = await store.acquire(thread)
    assert await deliveries.drain() == DeliveryReport(busy=(thread,))
    deliveries.attach(thread, LeasedOutbox(store, lease))
    assert await deliveries.drain(thread) == DeliveryReport(delivered=1)
    await lease.release()
    assert board.shown == ["Done."]


async def test_a_deleted_thread_owes_nothing(store, thread, clock):
    await tell(store, thread, "Done.")
    await store.delete(thread)
    assert await deliveries_to(store, clock, board=Board()).drain() == DeliveryReport()


async def test_only_the_threads_that_are_named_are_drained(store, clock):
    one, two = (await store.create()).id, (await store.create()).id
    board = Board()
    for each in (one, two):
        await tell(store, each, each)
    await deliveries_to(store, clock, board=board).drain(two)
    assert board.shown == [two]


async def test_many_drains_at_once_deliver_once(store, clock):
    board = Board()
    threads = [(await store.create()).id for _ in range(5)]
    for thread in threads:
        for number in range(3):
            await tell(store, thread, f"{thread} {number}")
    desks = [deliveries_to(store, clock, board=board) for _ in range(4)]
    while await store.outbox():
        await asyncio.gather(*(deliveries.drain() for deliveries in desks for _ in range(2)))
    assert sorted(board.shown) == sorted(f"{each} {n}" for each in threads for n in range(3))


async def test_a_thread_whose_channel_hangs_does_not_hold_up_another(store, clock):
    class Waiting(Board):
        other = asyncio.Event()

        async def deliver(self, delivery, /):
            if delivery.reply.text == "slow":
                await self.other.wait()
            self.other.set()
            return await super().deliver(delivery)

    board = Waiting(deduplicates=True)
    for text in ("slow", "quick"):
        await tell(store, (await store.create()).id, text)
    assert await deliveries_to(store, clock, board=board).drain() == DeliveryReport(delivered=2)
    assert board.shown == ["quick", "slow"]


async def test_a_turn_that_cannot_be_read_is_put_aside_and_holds_up_nothing(store, thread, clock):
    board = Board()
    damaged = Draft(kind="response", body=b'{"request":"x"}', turn=THIS_TURN)
    await tell(store, thread, damaged)
    await tell(store, thread, "Done.")
    report = await deliveries_to(store, clock, board=board).drain()
    assert (report.delivered, [each.key for each in report.blocked]) == (1, [f"{thread}.1.turn"])


async def test_a_cancelled_drain_neither_loses_nor_repeats(store, thread, clock):
    board = Board()
    for number in range(40):
        await tell(store, thread, f"{number}")
    deliveries = deliveries_to(store, clock, board=board)
    for spins in range(0, 400, 7):
        task = asyncio.create_task(deliveries.drain())
        for _ in range(spins):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await deliveries.run()
    assert board.shown == [str(number) for number in range(40)]
    assert await store.outbox() == []


async def test_a_queue_serves_open_threads_until_its_host_acknowledges(store, thread, clock):
    queue = QueueChannel()
    deliveries = deliveries_to(store, clock, queue=queue)
    await tell(store, thread, "one", channel="queue")
    await tell(store, thread, "two", channel="queue")
    assert await deliveries.run() == DeliveryReport(pending=2)
    assert queue.waiting == 0
    lease = await store.acquire(thread)
    deliveries.attach(thread, LeasedOutbox(store, lease))
    assert await deliveries.run() == DeliveryReport(held=2)
    assert await deliveries.run() == DeliveryReport(held=2)
    assert queue.waiting == 2
    first = await anext(queue)
    assert first.reply.text == "one"
    await queue.acknowledge(first)
    await queue.acknowledge(first)
    assert await deliveries.run() == DeliveryReport(held=1)
    assert queue.waiting == 1
    deliveries.detach(thread)
    await lease.release()
    assert queue.waiting == 0


async def test_what_a_crash_left_unacknowledged_is_handed_out_again_and_nothing_else(
    store, thread, clock
):
    for number in range(3):
        await tell(store, thread, f"{number}", channel="queue")
    before = QueueChannel()
    lease = await store.acquire(thread)
    deliveries = deliveries_to(store, clock, queue=before)
    deliveries.attach(thread, LeasedOutbox(store, lease))
    await deliveries.drain()
    await before.acknowledge(await before.get())
    await before.get()
    after = QueueChannel()
    deliveries = deliveries_to(store, clock, queue=after)
    deliveries.attach(thread, LeasedOutbox(store, lease))
    await deliveries.drain()
    assert [(await after.get()).reply.text for _ in range(after.waiting)] == ["1", "2"]
    await lease.release()


async def test_a_delivery_may_be_acknowledged_after_its_thread_was_closed(store, thread, clock):
    queue = QueueChannel()
    deliveries = deliveries_to(store, clock, queue=queue)
    await tell(store, thread, "one", channel="queue")
    lease = await store.acquire(thread)
    deliveries.attach(thread, LeasedOutbox(store, lease))
    await deliveries.drain()
    taken = await queue.get()
    deliveries.detach(thread)
    await lease.release()
    await queue.acknowledge(taken)
    assert await store.outbox() == []


async def test_an_acknowledgement_waits_for_a_pass_that_has_its_thread(store, thread, clock):
    class Busy(Board):
        begun, over = asyncio.Event(), asyncio.Event()

        async def deliver(self, delivery, /):
            self.begun.set()
            await self.over.wait()
            return await super().deliver(delivery)

    queue, busy = QueueChannel(), Busy(deduplicates=True)
    deliveries = deliveries_to(store, clock, queue=queue, busy=busy)
    await tell(store, thread, "one", channel="queue")
    lease = await store.acquire(thread)
    deliveries.attach(thread, LeasedOutbox(store, lease))
    await deliveries.drain()
    taken = await queue.get()
    deliveries.detach(thread)
    await lease.release()
    await tell(store, thread, "two", channel="busy")
    draining = asyncio.create_task(deliveries.drain())
    await busy.begun.wait()
    acknowledging = asyncio.create_task(queue.acknowledge(taken))
    await asyncio.sleep(0.01)
    busy.over.set()
    await asyncio.gather(draining, acknowledging)
    assert await store.outbox() == []


async def test_a_webhook_that_is_down_for_an_hour_loses_nothing(store, clock):
    threads = [(await store.create()).id for _ in range(3)]
    async with Receiver() as receiver:
        port = receiver.port
    begun = clock.now
    async with AsyncTransport() as transport:
        hook = WebhookChannel(
            f"http://127.0.0.1:{port}/", SECRET, transport, private=True, clock=clock
        )
        deliveries = deliveries_to(store, clock, hook=hook)
        for thread in threads:
            for number in range(4):
                await tell(store, thread, f"{thread} {number}", channel="hook")
        down = await deliveries.run(timeout=3600)
        assert (down.delivered, down.blocked) == (0, ())
        assert 3200 < clock.now - begun <= 3600
        async with Receiver(port) as receiver:
            assert (await deliveries.run()).delivered == 12
            texts = [body["text"] for body in receiver.once.values()]
    for thread in threads:
        mine = [text for text in texts if text.startswith(thread)]
        assert mine == [f"{thread} {number}" for number in range(4)]
    assert await store.outbox() == []


async def test_a_webhook_that_limits_fails_and_refuses_is_followed_in_each(store, thread, clock):
    async with Receiver() as receiver, AsyncTransport() as transport:
        told = iter(
            [
                LoopbackResponse(status=429, headers={"retry-after": "7"}),
                LoopbackResponse(status=500),
                LoopbackResponse(status=404),
                LoopbackResponse(),
            ]
        )
        receiver.script = lambda _: next(told)
        hook = WebhookChannel(receiver.url, SECRET, transport, private=True, clock=clock)
        deliveries = deliveries_to(store, clock, hook=hook)
        await tell(store, thread, "one", channel="hook")
        await tell(store, thread, "two", channel="hook")
        report = await deliveries.run()
    assert clock.slept == [7, 2]
    assert report.delivered == 1
    assert [each.key for each in report.blocked] == [f"{thread}.1.final"]
    keys = [request.headers["idempotency-key"] for request in receiver.requests]
    assert keys == [f"{thread}.{turn}.final" for turn in (1, 1, 1, 2)]


async def test_the_secret_is_in_no_row_report_or_error(store, thread, clock, tmp_path):
    async with Receiver() as receiver, AsyncTransport() as transport:
        told = iter(
            [
                LoopbackResponse(status=500),
                LoopbackResponse(status=302, headers={"location": f"/{SECRET}"}),
            ]
        )
        receiver.script = lambda _: next(told)
        hook = WebhookChannel(receiver.url, SECRET, transport, private=True, clock=clock)
        await tell(store, thread, "one", channel="hook")
        deliveries = deliveries_to(store, clock, hook=hook)
        report = await deliveries.run()
    assert len(report.blocked) == 1
    kept = f"{report} {await store.outbox()} {await deliveries.list_blocked()} {deliveries!r}"
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET not in kept
    assert SECRET.encode() not in files
    assert b"path-secret" not in files
