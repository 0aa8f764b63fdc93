"""How cost grows with the work: turns, entries, tools, threads and agents.

Owns `results/growth.json` and what the page says of it. Invariants: a cost is time on a
processor for one more turn, round or agent, all of a row measured in one run; the exponent is
that of the power law that fits best, so 0 is flat and 1 as much again for each.

    python -m benchmarks.growth [--short] [--only turns,…]

With `--short` nothing is kept: it only shows that all of it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from treadle import Rights, Routing, SqliteStore, Thread
from treadle.models.providers import ProviderConfig
from treadle.store.index import SqliteIndex
from treadle.subagents import AgentLimits
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer
from treadle.tools.agents import SpawnRequest
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool

from . import log
from .peers.runs import Server

__all__ = [
    "AXES",
    "GROWTH",
    "Axis",
    "Costs",
    "fit_exponent",
    "growth_text",
    "measure",
    "read_growth",
]

GROWTH = Path(__file__).parent / "results" / "growth.json"
ROUNDS = 100
"""Tool rounds of one turn."""
REPEATS = 5
PATIENCE = 600.0
"""Seconds for agents to answer in."""
AROUND = 20
"""So many turns before a place say what a turn costs there."""
TURNS_EACH = 3
"""Turns of each of many threads."""

Costs: TypeAlias = dict[int, float]
"""Milliseconds on a processor by size."""
Grows: TypeAlias = Callable[[Server, Path, Sequence[int]], Coroutine[Any, Any, Costs]]


@dataclass(frozen=True, slots=True)
class Axis:
    """Something that there can be more of."""

    title: str
    unit: str
    """What one cost is for."""
    sizes: tuple[int, ...]
    short: tuple[int, ...]
    measure: Grows
    why: str
    """Where it is not flat, and why."""


@asynccontextmanager
async def opened(
    server: Server, place: Path, script: str, **settings: Any
) -> AsyncIterator[Thread]:
    """A thread as a host has it, which asks the instant server."""
    base = f"{server.address}/{server.key()}/{script}/v1"
    provider = ProviderConfig(api="responses", base_url=base, key="none")
    usual = {"engine": "lossless", "rights": Rights(approval="never")}
    async with Thread.open(
        model="openai:gpt-5.5",
        cwd=place,
        home=place / "home",
        routing=Routing(providers={"openai": provider}),
        **{**usual, **settings},
    ) as thread:
        yield thread


async def spent_on_turn(thread: Thread, said: str = "And now?") -> float:
    """Milliseconds on a processor, in all threads."""
    before = time.process_time()
    async for _ in thread.run(said):
        pass
    return (time.process_time() - before) * 1e3


async def grow_turns(server: Server, place: Path, sizes: Sequence[int]) -> Costs:
    """What a turn costs in a thread of so many."""
    async with opened(server, place, "text") as thread:
        spent = [await spent_on_turn(thread) for _ in range(max(sizes))]
    return {size: statistics.median(spent[max(1, size - AROUND) : size]) for size in sizes}


async def grow_entries(_: Server, place: Path, sizes: Sequence[int]) -> Costs:
    """What it costs to open a thread whose log has so many entries, and to run a turn there."""
    threads = {size: await log.grow(place, size) for size in sizes}
    spent: dict[int, list[float]] = {size: [] for size in sizes}
    for _repeat in range(REPEATS):
        for size, thread in threads.items():
            before = time.process_time()
            await log.one_turn(place, thread)
            spent[size].append((time.process_time() - before) * 1e3)
    return {size: statistics.median(each) for size, each in spent.items()}


async def grow_tools(server: Server, place: Path, sizes: Sequence[int]) -> Costs:
    """What a round costs where so many tools are offered."""
    costs: Costs = {}
    for size in sizes:
        offered = tuple(numbered_tool(number) for number in range(size))
        spent = [await spent_on_rounds(server, place, offered) for _ in range(REPEATS)]
        costs[size] = statistics.median(spent) / ROUNDS
    return costs


async def spent_on_rounds(server: Server, place: Path, offered: tuple[Tool, ...]) -> float:
    """What the rounds of a new thread's first turn cost, beyond a turn without any."""
    async with opened(server, place, f"tick-{ROUNDS}", tools=offered) as thread:
        return await spent_on_turn(thread) - await spent_on_turn(thread)


def numbered_tool(number: int) -> Tool:
    """One of many tools; the first is the one that is called."""

    async def tick(number: int) -> int:
        """Counts."""
        return number + 1

    tick.__name__ = f"tick_{number}" if number else "tick"
    return tool(tick)


async def grow_threads(server: Server, place: Path, sizes: Sequence[int]) -> Costs:
    """What a turn costs where so many threads of one process run theirs at once."""
    costs: Costs = {}
    async with opened(server, place, "text") as first:  # loads what all of them need
        await some_turns(first)
    for size in sizes:
        home = place / str(size)
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(await SqliteStore.open(home))
            index = SqliteIndex(store, home)
            stack.push_async_callback(index.close)
            threads = [
                await stack.enter_async_context(
                    opened(server, place, "text", store=store, index=index)
                )
                for _ in range(size)
            ]
            await asyncio.gather(*map(spent_on_turn, threads))  # what a thread begins with
            before = time.process_time()
            await asyncio.gather(*map(some_turns, threads))
            costs[size] = (time.process_time() - before) * 1e3 / (size * TURNS_EACH)
    return costs


async def some_turns(thread: Thread) -> None:
    """Run a few turns, one after the other."""
    for _ in range(TURNS_EACH):
        await spent_on_turn(thread)


async def grow_agents(_: Server, place: Path, sizes: Sequence[int]) -> Costs:
    """What an agent costs that one thread starts beside so many others, until it has answered."""
    costs: Costs = {}
    for size in sizes:
        limits = AgentLimits(concurrent=size)
        async with (
            model_for_agents() as model,
            Thread.open(
                model=model, cwd=place, home=place / "home", agents=limits, tools=()
            ) as thread,
        ):
            await spent_on_turn(thread)
            await spent_on_agents(thread, 1)  # which loads what all of them need
            costs[size] = await spent_on_agents(thread, size) / size
    return costs


async def spent_on_agents(thread: Thread, count: int) -> float:
    """Milliseconds on a processor until so many agents have answered."""
    before = time.process_time()
    for number in range(count):
        await thread.subagents.spawn(SpawnRequest(message=f"Dig {number}."))
    while working := thread.subagents.working:
        await thread.subagents.wait(working, PATIENCE)
    return (time.process_time() - before) * 1e3


@asynccontextmanager
async def model_for_agents() -> AsyncIterator[ScriptedModel]:
    """A model that has one answer for everybody."""
    model = ScriptedModel([Answer(text="Done.", times=0)])
    try:
        yield model
    finally:
        await model.close()


AXES: dict[str, Axis] = {
    "turns": Axis(
        "turns in one thread",
        "a turn",
        (10, 100, 1_000, 3_000, 10_000),
        (2, 4),
        grow_turns,
        "each request sends the whole view again, until the engine makes the view smaller",
    ),
    "entries": Axis(
        "entries in the log",
        "opening it, and a turn",
        (1_000, 10_000, 100_000, 1_000_000),
        (1_000, 2_000),
        grow_entries,
        "nothing but the depth of the tables",
    ),
    "tools": Axis(
        "tools that are offered",
        "a round",
        (10, 50, 100, 500),
        (1, 2),
        grow_tools,
        "their definitions are sent with each request",
    ),
    "threads": Axis(
        "threads at work in one process",
        "a turn",
        (1, 10, 100, 1_000),
        (1, 2),
        grow_threads,
        "commits that wait together share a transaction; a thousand threads are also collected",
    ),
    "agents": Axis(
        "agents at once",
        "an agent",
        (1, 5, 10, 50),
        (1, 2),
        grow_agents,
        "it falls, because their commits share transactions",
    ),
}


def fit_exponent(costs: Mapping[int, float]) -> float:
    """The exponent of the power law that fits best."""
    points = [(math.log(size), math.log(cost)) for size, cost in costs.items()]
    mean_x, mean_y = (statistics.fmean(each) for each in zip(*points, strict=True))
    along = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return along / sum((x - mean_x) ** 2 for x, _ in points)


def measure(names: Sequence[str], *, short: bool) -> dict[str, Costs]:
    """Measure these axes, one after the other."""
    found: dict[str, Costs] = {}
    with Server.started() as server:
        for name in names:
            axis = AXES[name]
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
                sizes = axis.short if short else axis.sizes
                found[name] = asyncio.run(axis.measure(server, Path(place), sizes))
            print(row(name, found[name]), flush=True)
    return found


def row(name: str, costs: Mapping[int, float]) -> str:
    """One line of the table."""
    axis = AXES[name]
    told = " · ".join(f"{size:,}: {cost:.2f}" for size, cost in costs.items())
    return f"| {axis.title} | {axis.unit} | {told} | {fit_exponent(costs):+.2f} | {axis.why} |"


def growth_text(found: Mapping[str, Mapping[int, float]]) -> str:
    """What the page says: a table, and the plot."""
    lines = (
        "| more of | what is measured | milliseconds on a processor | exponent | where from |",
        "|---|---|---|---:|---|",
        *(row(name, costs) for name, costs in found.items()),
    )
    return "\n".join(lines) + "\n\n![Cost by amount of work](images/growth.png)"


def read_growth(path: Path = GROWTH) -> dict[str, Costs]:
    """What was measured last."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return {name: {int(size): cost for size, cost in row.items()} for name, row in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--short", action="store_true", help="small sizes; keeps nothing")
    parser.add_argument("--only", default=",".join(AXES), help=", ".join(AXES))
    options = parser.parse_args()
    found = measure(options.only.split(","), short=options.short)
    if not options.short:
        kept = (read_growth() if GROWTH.exists() else {}) | found
        rounded = {
            name: {size: float(f"{cost:.4g}") for size, cost in kept[name].items()}
            for name in AXES
            if name in kept
        }
        GROWTH.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
