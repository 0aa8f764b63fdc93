"""What the tests of agents have in common: gates to hold them at, and what a parent was told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.scenes import call, open_thread
from treadle import Limits, Thread
from treadle.core.entries import Entry
from treadle.core.provenance import InternalEvent
from treadle.subagents import AgentLimits
from treadle.testing.script import Call
from treadle.testing.scripted import ScriptedModel
from treadle.tools.contract import ToolContext
from treadle.tools.decorator import tool

__all__ = ["Gates", "agent_thread", "announced", "announcements", "listed", "rights", "spawn"]


class Gates:
    """Where agents wait until a test lets them go on."""

    def __init__(self) -> None:
        self.reached: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.open: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

        @tool(parallel=True)
        async def hold(name: str) -> str:
            "Waits at a gate."
            self.reached[name].set()
            await self.open[name].wait()
            return f"passed {name}"

        self.tool = hold


@tool(parallel=True)
async def rights(context: ToolContext) -> str:
    "Tells what calls may do."
    policy = context.policy
    return f"may {policy.mode} {policy.writable_roots} {policy.network} {context.approval}"


def spawn(message: str, name: str = "", **options: Any) -> Call:
    """A call that starts an agent."""
    named = {"task_name": name} if name else {}
    return call("spawn_agent", message=message, **named, **options)


@asynccontextmanager
async def agent_thread(
    place: Path,
    model: ScriptedModel,
    *tools: Any,
    limits: AgentLimits | None = None,
    turn_limits: Limits | None = None,
    **options: Any,
) -> AsyncIterator[Thread]:
    """A thread that may start agents."""
    options.setdefault("tools", tools)
    options["limits"] = turn_limits
    async with open_thread(place, model, agents=limits or AgentLimits(), **options) as thread:
        yield thread


async def announced(thread: Thread) -> list[InternalEvent]:
    """What a thread was told of its agents, in log order."""
    entries = await thread.store.read(thread.id)
    return [event for entry in entries for event in entry.events]


async def listed(thread: Thread) -> list[tuple[str, str]]:
    """Its agents by name, and how they are."""
    return [(info.nickname, info.status) for info in await thread.subagents.agents()]


def announcements(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that announce something."""
    return [entry for entry in entries if entry.events]
