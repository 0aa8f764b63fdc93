from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest

from tests.harness.scenes import call, hear, scripted
from treadle import SqliteStore, Thread
from treadle.engines.values import EndReason
from treadle.harness.events import AgentReported, Event, TurnCompleted
from treadle.store.contract import (
    Change,
    ChangeResult,
    InboxDraft,
    InboxMessage,
    Lease,
    OutboxRow,
    Turn,
)
from treadle.subagents import post_message
from treadle.testing.contracts.answers import wait_until
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel
from treadle.tools.agents import AgentInfo, SpawnRequest, WaitResult

from .scenes import Gates, agent_thread

T = TypeVar("T")

Question = Literal["turns", "inbox", "outbox", "post", "order"]


class Late(SqliteStore):
    """A store one answer of which comes late: what it says may have changed by then."""

    def delay(self, question: Question, thread: str, nth: int = 1) -> None:
        """Keep the `nth` answer from now on back until `told` is set."""
        self.question, self.thread, self.numbers, self.nth = question, thread, count(1), nth
        self.asked, self.told = asyncio.Event(), asyncio.Event()

    question: Question | None = None

    async def turns(self, thread: str, *, limit: int | None = None) -> list[Turn]:
        answer = await super().turns(thread, limit=limit)
        return answer if limit else await self._late("turns", thread, answer)

    async def inbox(self, thread: str) -> list[InboxMessage]:
        return await self._late("inbox", thread, await super().inbox(thread))

    async def outbox(
        self, *, thread: str | None = None, topic: str | None = None
    ) -> list[OutboxRow]:
        answer = await super().outbox(thread=thread, topic=topic)
        return await self._late("outbox", thread or "", answer)

    async def post(self, thread: str, message: InboxDraft) -> InboxMessage:
        return await self._late("post", thread, await super().post(thread, message))

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        committed = await super().commit(lease, change)
        ordered = any(row.topic == "agent" for row in change.outbox)
        return await self._late("order", lease.thread, committed) if ordered else committed

    async def _late(self, question: Question, thread: str, answer: T) -> T:
        asked = question == self.question and self.thread in (thread, "")
        if asked and next(self.numbers) == self.nth:
            self.asked.set()
            await self.told.wait()
        return answer


@asynccontextmanager
async def late(
    place: Path, model: ScriptedModel, *tools: Any
) -> AsyncIterator[tuple[Thread, Late]]:
    """A thread that was spoken to once, in a store that may be late."""
    (place / "home").mkdir()
    store = await Late.open(place / "home")
    assert isinstance(store, Late)
    async with store, agent_thread(place, model, *tools, store=store) as thread:
        await hear(thread, "hello")
        yield thread, store


async def spawned(thread: Thread, message: str) -> str:
    born = await thread.subagents.spawn(SpawnRequest(message=message, nickname="mole"))
    assert isinstance(born, AgentInfo)
    return born.agent_id


async def told(thread: Thread) -> list[tuple[str, str]]:
    """What waits to be read of agents: how they ended, and with which words."""
    messages = await thread.store.inbox(thread.id)
    return [(each.status_label, each.result) for message in messages for each in message.events]


GREETING = Answer(when="hello", text="hi")


@pytest.mark.parametrize("look", [1, 2], ids=["before it is opened", "before its turn"])
async def test_an_agent_that_is_interrupted_while_it_looks_for_its_turn_does_not_begin_it(
    tmp_path: Path, look: int
):
    model = scripted(GREETING, Answer(when="dig", text="dug"))
    async with late(tmp_path, model) as (thread, store):
        store.delay("turns", "", look)
        child = await spawned(thread, "dig")
        await store.asked.wait()
        interrupting = asyncio.create_task(thread.subagents.interrupt(child))
        await asyncio.sleep(0)
        store.told.set()
        await interrupting
        assert await store.turns(child) == []
        assert await told(thread) == [("was interrupted before it was done", "")]


async def test_an_agent_that_is_told_something_else_at_once_does_it_in_a_turn_of_its_own(
    tmp_path: Path,
):
    model = scripted(
        GREETING,
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="swim", calls=(call("hold", name="lake"),)),
        Answer(when="passed lake", text="swam"),
    )
    gates = Gates()
    ends: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, AgentReported) and isinstance(event.event, TurnCompleted):
            ends.append(event.event.status)

    async with late(tmp_path, model, gates.tool) as (thread, store):
        thread.observers.append(listen)
        child = await spawned(thread, "dig")
        await gates.reached["hole"].wait()
        store.delay("post", child)
        sending = asyncio.create_task(thread.subagents.send(child, "swim", interrupt=True))
        await store.asked.wait()
        gates.open["hole"].set()
        await wait_until(lambda: bool(ends) or gates.reached["lake"].is_set())
        store.told.set()
        await sending
        gates.open["lake"].set()
        await thread.subagents.wait_for_mail()
        assert [turn.state for turn in await store.turns(child)] == ["aborted", "completed"]
        assert await told(thread) == [("completed successfully", "swam")]


async def test_of_two_who_wait_neither_misses_that_somebody_spoke(tmp_path: Path):
    model = scripted(GREETING, Answer(when="dig", calls=(call("hold", name="hole"),)))
    gates = Gates()
    async with late(tmp_path, model, gates.tool) as (thread, store):
        child = await spawned(thread, "dig")
        store.delay("inbox", thread.id)
        first = asyncio.create_task(thread.subagents.wait((), 10))
        await store.asked.wait()
        await post_message(store, thread.id, "never mind")
        thread.subagents.wake()
        second = await thread.subagents.wait((), 10)
        store.told.set()
        spoken = WaitResult(status={child: "running"}, timed_out=False)
        assert [await first, second] == [spoken, spoken]


async def test_an_agent_that_is_ordered_while_its_thread_closes_is_released_with_it(
    tmp_path: Path,
):
    model = scripted(GREETING, Answer(when="dig", calls=(call("hold", name="hole"),)))
    gates = Gates()
    before = asyncio.all_tasks()
    async with late(tmp_path, model, gates.tool) as (thread, store):
        name = thread.id
        store.delay("order", name)
        spawning = asyncio.create_task(spawned(thread, "dig"))
        await store.asked.wait()
        asyncio.get_running_loop().call_soon(store.told.set)
    child = await spawning
    assert asyncio.all_tasks() == before
    async with agent_thread(tmp_path, scripted(), thread=name) as thread:
        assert await thread.store.outbox(topic="agent") == []
        assert await thread.store.turns(child) == []
        assert await told(thread) == [("was interrupted before it was done", "")]


class Ends:
    """Remembers which agents ended."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, EndReason]] = []

    async def prepare_spawn(self, child: str, mode: Literal["isolated", "fork"]) -> None:
        """Needs nothing."""

    async def on_subagent_ended(self, child: str, reason: EndReason) -> None:
        self.heard.append((child, reason))


async def test_an_agent_that_ends_while_orders_are_looked_through_ends_once(tmp_path: Path):
    model = scripted(
        GREETING,
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="passed hole", text="dug"),
    )
    gates = Gates()
    async with late(tmp_path, model, gates.tool) as (thread, store):
        thread.subagents.watcher = ends = Ends()
        child = await spawned(thread, "dig")
        store.delay("outbox", thread.id)
        recovering = asyncio.create_task(thread.subagents.recover())
        await store.asked.wait()
        gates.open["hole"].set()
        while thread.subagents.working:
            await thread.subagents.wait_for_mail()
        store.told.set()
        await recovering
        assert ends.heard == [(child, "completed")]
        assert await told(thread) == [("completed successfully", "dug")]
