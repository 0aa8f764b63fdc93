from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.fork_server import run
from tests.harness.scenes import call, hear, last, log, open_thread, scripted
from treadle import SqliteStore
from treadle.context.layout import layout
from treadle.core.errors import NotFound, NothingToSend, StoreFull
from treadle.core.items import decode_item, text_of
from treadle.core.provenance import InputProvenance
from treadle.harness.events import TurnStarted
from treadle.store.contract import InboxDraft, InboxMessage
from treadle.subagents import post_message
from treadle.testing.contracts.answers import wait_until
from treadle.testing.script import Answer

from .scenes import Gates, agent_thread, announced, spawn


async def test_a_thread_reads_what_another_sent_in_a_turn_of_its_own(tmp_path: Path):
    model = scripted(Answer(when="are you there?", text="yes"))
    async with (
        open_thread(tmp_path, scripted()) as sender,
        open_thread(tmp_path, model, store=sender.store) as reader,
    ):
        key = await sender.send(reader.id, "are you there?", channel="lab")
        assert last(await hear(reader)).text == "yes"
        assert layout(reader.request(), reader.registry) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       <inter_session> <text> <inter_session_end>
03 assistant  yes
""")
        (said,) = [entry for entry in await reader.store.read(reader.id) if entry.provenance]
        assert said.provenance == InputProvenance(
            kind="inter_session",
            origin_thread=sender.id,
            source_thread=sender.id,
            source_channel="lab",
            source_tool="sessions_send",
        )
        assert await sender.send(reader.id, "are you there?", key=key) == key
        assert await reader.store.inbox(reader.id) == []


async def test_a_turn_takes_in_all_that_waits_in_the_order_it_came(tmp_path: Path):
    model = scripted(Answer(text="all read"))
    async with open_thread(tmp_path, model) as thread:
        for text in ("one", "two", "three"):
            await post_message(thread.store, thread.id, text)
        await hear(thread)
        assert await log(thread) == ["user: one", "user: two", "user: three", "assistant: all read"]
        (turn,) = await thread.store.turns(thread.id)
        assert turn.state == "completed"


async def test_mail_reaches_a_turn_under_way_before_its_next_step(tmp_path: Path):
    model = scripted(
        Answer(when="go", calls=(call("hold", name="there"),)),
        Answer(when="hurry", text="I hurry"),
    )
    gates = Gates()
    async with open_thread(tmp_path, model, tools=(gates.tool,)) as thread:
        turn = asyncio.create_task(hear(thread, "go"))
        await gates.reached["there"].wait()
        async with await SqliteStore.open(tmp_path / "home") as elsewhere:
            await post_message(elsewhere, thread.id, "hurry", source="thr_other")
        gates.open["there"].set()
        assert last(await turn).text == "I hurry"


async def test_without_mail_and_without_agents_there_is_nothing_to_run(tmp_path: Path):
    async with open_thread(tmp_path, scripted()) as thread:
        with pytest.raises(NothingToSend):
            await hear(thread)
        assert not await thread.expects()
        assert (await thread.store.info(thread.id)).last == 0


async def test_a_turn_that_waits_for_an_agent_can_be_interrupted(tmp_path: Path):
    model = scripted(
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="start", calls=(spawn("dig"),)),
        Answer(when="agent_id", text="ok"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        waiting = asyncio.create_task(hear(thread))
        await gates.reached["hole"].wait()
        await wait_until(lambda: thread._running.is_open)
        thread.interrupt()
        assert last(await waiting).status == "interrupted"
        assert len(thread.subagents.working) == 1
        assert len(await thread.store.turns(thread.id)) == 1


async def test_a_message_for_nobody_is_refused(tmp_path: Path):
    async with open_thread(tmp_path, scripted()) as thread:
        with pytest.raises(NotFound):
            await thread.send("thr_nobody", "hello?")


async def test_a_person_leaves_a_message_as_a_person(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        left = await post_message(store, thread, "hello", channel="desk")
        assert left.provenance == InputProvenance(kind="external_user", source_channel="desk")
        item = decode_item(left.body)
        assert text_of(getattr(item, "content", ())) == "hello"


class Full(SqliteStore):
    """A store that has no room for the first message."""

    full = True

    async def post(self, thread: str, message: InboxDraft) -> InboxMessage:
        if self.full:
            self.full = False
            raise StoreFull("no room")
        return await super().post(thread, message)


@pytest.mark.parametrize("again", [False, True], ids=["next turn", "next order"])
async def test_an_announcement_that_could_not_be_left_is_left_later(tmp_path: Path, again: bool):
    model = scripted(
        Answer(when="tally up", text="one"),
        Answer(when="once more", text="two"),
        Answer(when="start", calls=(spawn("tally up"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="timed_out", text="no news"),
        Answer(when="task_completion", text="news", times=0),
    )
    (tmp_path / "home").mkdir()
    async with (
        await Full.open(tmp_path / "home") as store,
        agent_thread(tmp_path, model, store=store) as thread,
    ):
        assert last(await hear(thread, "start")).text == "no news"
        (child,) = thread.subagents.records
        if again:
            await thread.subagents.send(child, "once more")
        while await thread.expects():
            await hear(thread)
        told = [event.result for event in await announced(thread)]
        assert told == (["one", "two"] if again else ["one"])
        assert await store.outbox(topic="agent") == []


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from treadle import Thread
from treadle.store import SqliteStore
from treadle.subagents import post_message
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel

place, moment = Path(sys.argv[1]), sys.argv[2]


class Store(SqliteStore):
    async def commit(self, lease, change):
        if change.take and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        committed = await super().commit(lease, change)
        if change.take and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return committed


async def main():
    store = await Store.open(place / "home")
    model = ScriptedModel([Answer(text="never said")])
    async with Thread.open(model=model, store=store, home=place / "home", cwd=place / "project",
                           tools=()) as thread:
        print(thread.id, flush=True)
        await post_message(store, thread.id, "first")
        await post_message(store, thread.id, "second")
        async for event in thread.run(turn_id="turn_mail"):
            pass


asyncio.run(main())
"""


def killed(place: Path, moment: str) -> str:
    for name in ("home", "project"):
        (place / name).mkdir()
    command = [sys.executable, "-c", KILLED, str(place), moment]
    done = run(command)
    assert done.returncode == -signal.SIGKILL
    return done.stdout.decode().strip()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_mail_is_neither_lost_nor_doubled_when_its_turn_is_killed(
    tmp_path: Path, moment: str
):
    name = await asyncio.to_thread(killed, tmp_path, moment)
    model = scripted(Answer(text="both read"))
    async with open_thread(tmp_path, model, thread=name) as thread:
        events = await hear(thread, turn_id="turn_mail")
        assert last(events).text == "both read"
        assert isinstance(events[0], TurnStarted)
        assert await log(thread) == ["user: first", "user: second", "assistant: both read"]
        turns = await thread.store.turns(thread.id)
        assert [(turn.id, turn.state) for turn in turns] == [("turn_mail", "completed")]
        with pytest.raises(NothingToSend):
            await hear(thread)
