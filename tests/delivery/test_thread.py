from __future__ import annotations

from treadle.core.items import Message, OutputText
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.deliveries import Deliveries
from treadle.delivery.outbox import TOPIC, DeliveryFollower
from treadle.delivery.reports import Drained
from treadle.delivery.route import Origin
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
        desk = Deliveries(store, {"board": board, "queue": queue})
        async with Thread.open(model="openai:gpt-5.5", store=store, cwd=tmp_path) as thread:
            follower = DeliveryFollower(thread.id, Origin("board", "you"), "queue")
            thread.log.followers.append(follower)
            desk.attach(thread.id, thread.log)
            await answered(thread, "Here.")
            (row,) = await store.outbox(topic=TOPIC)
            assert (row.key, row.state) == (f"{thread.id}.1.turn", "admitted")
            assert await desk.run(thread.id, patience=0) == Drained(delivered=1)
            await answered(thread, "NO_REPLY")
            assert await desk.run(thread.id, patience=0) == Drained(suppressed=1)
            follower.origin = Origin()
            await answered(thread, "To the host.")
            assert await desk.run(thread.id, patience=0) == Drained(held=1)
            await queue.acknowledge(await queue.get())
            desk.detach(thread.id)
        assert await store.outbox(topic=TOPIC) == []
    assert board.shown == ["Here."]


async def test_a_turn_that_nobody_delivered_is_delivered_when_its_thread_is_opened_again(tmp_path):
    async with Thread.open(model="openai:gpt-5.5", cwd=tmp_path, home=tmp_path) as thread:
        thread.log.followers.append(DeliveryFollower(thread.id, Origin("board", "you")))
        await answered(thread, "Here.")
        opened = thread.id
    board = Board()
    async with Thread.open(opened, home=tmp_path) as thread:
        desk = Deliveries(thread.store, {"board": board})
        desk.attach(thread.id, thread.log)
        assert await desk.drain() == Drained(delivered=1)
    assert board.shown == ["Here."]
