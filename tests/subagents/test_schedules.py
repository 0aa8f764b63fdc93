from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.scenes import call, hear, last, scripted
from treadle import Thread
from treadle.core.items import Message, decode_item, text_of
from treadle.subagents import AgentLimits
from treadle.testing.script import Answer
from treadle.tools.agents import AgentInfo, SpawnRequest

from .scenes import Gates, agent_thread, announced

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "10"))
STEPS = 20


class Play:
    """What a person might do with agents, in any order."""

    def __init__(self, thread: Thread, gates: Gates, chance: random.Random) -> None:
        self.thread, self.gates, self.chance = thread, gates, chance
        self.orders: list[str] = []
        """Everything that agents were told, each with words of its own."""
        self.begun: Counter[str] = Counter()
        """How often each was set to work."""

    def words(self) -> str:
        self.orders.append(f"work {len(self.orders):03}.")
        return self.orders[-1]

    async def spawn(self) -> None:
        if len(self.thread.subagents.working) < 3:
            fork = self.chance.random() < 0.3
            born = await self.thread.subagents.spawn(SpawnRequest(message=self.words(), fork=fork))
            assert isinstance(born, AgentInfo)
            self.begun[born.agent_id] += 1

    async def send(self) -> None:
        known = list(self.thread.subagents.records)
        if known and len(self.thread.subagents.working) < 3:
            target, interrupt = self.chance.choice(known), self.chance.random() < 0.4
            sent = await self.thread.subagents.send(target, self.words(), interrupt=interrupt)
            assert isinstance(sent, str)
            # At rest it begins a turn, at work it only gets mail.
            self.begun[target] += sent.startswith("turn_")

    async def interrupt(self) -> None:
        if known := list(self.thread.subagents.records):
            await self.thread.subagents.interrupt(self.chance.choice(known))

    async def open(self) -> None:
        self.gates.open["any"].set()

    async def shut(self) -> None:
        self.gates.open["any"].clear()

    async def read(self) -> None:
        if await self.thread.log.inbox():
            assert last(await hear(self.thread)).status == "completed"

    async def step(self) -> None:
        moves = (self.spawn, self.send, self.send, self.interrupt, self.open, self.shut, self.read)
        await self.chance.choice(moves)()

    async def end(self) -> None:
        await self.open()
        while await self.thread.expects():
            await hear(self.thread)


async def heard(thread: Thread, child: str) -> list[str]:
    """What an agent was told, by its log and by what still waits for it."""
    bodies = [e.body for e in await thread.store.read(child) if e.kind == "item"]
    bodies += [bytes(message.body) for message in await thread.store.inbox(child)]
    items = [item for body in bodies if isinstance(item := decode_item(body), Message)]
    return [text_of(item.content) for item in items if item.role == "user"]


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_whatever_is_done_nothing_is_read_twice_and_every_order_is_announced_once(
    tmp_path: Path, seed: int
):
    model = scripted(
        Answer(when="task_completion", text="I see", times=0),
        Answer(when="hello", text="hi"),
        Answer(when="work ", calls=(call("hold", name="any"),), times=0),
        Answer(when="passed any", text="done", times=0),
    )
    gates = Gates()
    limits = AgentLimits(concurrent=3)
    async with agent_thread(tmp_path, model, gates.tool, limits=limits) as thread:
        await hear(thread, "hello")
        play = Play(thread, gates, random.Random(seed))
        await play.spawn()
        for _ in range(STEPS):
            await play.step()
        await play.end()
        told: Counter[str] = Counter()
        for child in thread.subagents.records:
            told.update(text for text in await heard(thread, child) if text in play.orders)
            turns = await thread.store.turns(child)
            assert {turn.state for turn in turns} <= {"completed", "aborted"}
        assert set(told.values()) <= {1}
        announcements = Counter(event.child_thread for event in await announced(thread))
        assert announcements == play.begun
        assert await thread.store.outbox(topic="agent") == []
        assert await thread.store.inbox(thread.id) == []
