from __future__ import annotations

import io

from tests.harness.scenes import hear, last, of, open_thread, scripted
from treadle.core.provenance import InputProvenance
from treadle.delivery.channel import ReplyOrigin
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.channels.terminal import TerminalChannel
from treadle.harness.events import NoticeRaised
from treadle.testing.script import Answer, ScriptedError


async def test_a_reply_goes_out_when_its_turn_has_ended(tmp_path):
    screen = io.StringIO()
    model = scripted(Answer(text="hello there"), Answer(text="NO_REPLY"), Answer(text="bye"))
    async with open_thread(tmp_path, model, channel=TerminalChannel(screen)) as thread:
        for said in ("hi", "hm", "go"):
            assert last(await hear(thread, said)).status == "completed"
        assert await thread.store.outbox(topic="delivery") == []
    assert screen.getvalue().split() == ["hello", "there", "bye"]


async def test_what_nobody_took_comes_again_with_the_thread(tmp_path):
    first = QueueChannel()
    async with open_thread(tmp_path, scripted(Answer(text="hello")), channel=first) as thread:
        await hear(thread, "hi")
        assert (await first.get()).reply.text == "hello"
        name = thread.id
    second = QueueChannel()
    async with open_thread(tmp_path, scripted(), thread=name, channel=second) as thread:
        again = await second.get()
        assert again.reply.text == "hello"
        await second.acknowledge(again)
        assert await thread.store.outbox(topic="delivery") == []


async def test_a_reply_goes_back_to_where_its_input_came_from(tmp_path):
    here, there = QueueChannel(), QueueChannel()
    model = scripted(Answer(text="one"), Answer(text="two"))
    async with open_thread(tmp_path, model, channel={"here": here, "there": there}) as thread:
        await hear(thread, "hi", origin=ReplyOrigin(channel="there", to="ada"))
        await hear(thread, "hi again")
        answer = await there.get()
        assert (answer.reply.text, answer.to) == ("one", "ada")
        assert (await here.get()).reply.text == "two"


async def test_the_runtime_s_own_turns_and_failures_say_no_more_than_they_must(tmp_path):
    channel = QueueChannel()
    broken = Answer(error=ScriptedError(status=400, message="no"))
    model = scripted(Answer(text="noted"), broken)
    async with open_thread(tmp_path, model, channel=channel) as thread:
        internal = InputProvenance(kind="internal_system")
        await hear(thread, "wake up", provenance=internal)
        assert last(await hear(thread, "hi")).status == "failed"
        told = await channel.get()
        assert told.reply.is_error
        assert "noted" not in told.reply.text


async def test_a_channel_that_breaks_costs_the_turn_nothing(tmp_path):
    class Broken:
        kind = "broken"
        deduplicates = True

        async def deliver(self, delivery: object) -> object:
            raise RuntimeError(f"it fell over {delivery!r}")

    async with open_thread(tmp_path, scripted(Answer(text="hello")), channel=Broken()) as thread:
        events = await hear(thread, "hi")
        assert last(events).status == "completed"
        (notice,) = of(events, NoticeRaised)
        assert "could not be delivered yet" in notice.text
        (row,) = await thread.store.outbox(topic="delivery")
        assert row.attempts == 1
