from __future__ import annotations

from treadle.core.items import Message, OutputText
from treadle.delivery.channel import ReplyOrigin
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.deliveries import Deliveries
from treadle.delivery.outbox import TOPIC, DeliveryFollower, DeliveryReport
from treadle.store import SqliteStore
from treadle.store.contract import TurnEnd
from treadle.thread.thread import Thread

from .scenes import Board


async def answered(thread: Thread, text: str) -> None:
    """One turn, as a harness runs it."""
    turn = await thread.log.turns.admit("Hello?")
    await thread.log.requests.record(thread.request())
    said = Message(role="assistant", content=(OutputText(text),))
    await thread.log.requests.record_answer(
        [said], end=TurnEnd(number=turn.number, state="completed")
    )


async def test_an_open_thread_owes_its_answer_from_the_transaction_that_ends_the_turn(tmp_path):
    board, queue = Board(), QueueChannel()
    async with await SqliteStore.open(tmp_path) as store:
        deliveries = Deliveries(store, {"board": board, "queue": queue})
        async with Thread.open(model="openai:gpt-5.5", store=store, cwd=tmp_path) as thread:
            follower = DeliveryFollower(thread.id, ReplyOrigin("board", "you"), "queue")
            thread.log.followers.append(follower)
            deliveries.attach(thread.id, thread.log)
            await answered(thread, "Here.")
            (row,) = await store.outbox(topic=TOPIC)
            assert (row.key, row.state) == (f"{thread.id}.1.turn", "admitted")
            assert await deliveries.run(thread.id, timeout=0) == DeliveryReport(delivered=1)
            await answered(thread, "NO_REPLY")
            assert await deliveries.run(thread.id, timeout=0) == DeliveryReport(suppressed=1)
            follower.origin = ReplyOrigin()
            await answered(thread, "To the host.")
            assert await deliveries.run(thread.id, timeout=0) == DeliveryReport(held=1)
            await queue.acknowledge(await queue.get())
            deliveries.detach(thread.id)
        assert await store.outbox(topic=TOPIC) == []
    assert board.shown == ["Here."]


async def test_a_turn_that_nobody_delivered_is_delivered_when_its_thread_is_opened_again(tmp_path):
    async with Thread.open(model="openai:gpt-5.5", cwd=tmp_path, home=tmp_path) as thread:
        thread.log.followers.append(DeliveryFollower(thread.id, ReplyOrigin("board", "you")))
        await answered(thread, "Here.")
        opened = thread.id
    board = Board()
    async with Thread.open(opened, home=tmp_path) as thread:
        deliveries = Deliveries(thread.store, {"board": board})
        deliveries.attach(thread.id, thread.log)
        assert await deliveries.drain() == DeliveryReport(delivered=1)
    assert board.shown == ["Here."]
