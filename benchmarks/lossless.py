"""Measure what a turn of the lossless engine costs as the history grows.

Histories are written in bulk as turns that happened elsewhere; at each stop the thread is
opened again and the engine reduces its view with extracts, because no model is asked. The
measured calls are the real ones: open, begin, assemble, record, hand over. Figures are lower
quartiles of interleaved rounds, because machines are shared. At last a thread runs 1,000
turns, and the ledger says how much of each request the one before it had.

    python -m benchmarks.lossless [--sizes 1000,10000,100000,1000000] [--rounds 15]
                                  [--turns 1000] [--home DIR] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec import Raw

from treadle.context.compose import item_draft
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    OutputText,
    encode_item,
)
from treadle.engines.loading import EngineChoice, EngineContext
from treadle.engines.lossless.engine import create_engine
from treadle.engines.session import EngineSession
from treadle.log.turn_input import TurnInput
from treadle.prompt.input import user_message
from treadle.store.contract import THIS_TURN, Change, PastTurn
from treadle.store.index import SqliteIndex
from treadle.store.sqlite import SqliteStore
from treadle.thread.thread import Thread

Figures: TypeAlias = dict[str, float]
T = TypeVar("T")

TURN = 4
"""Messages of one turn."""
STOP = 400
"""Messages that are written before the thread is opened again …"""
STOPS = 500
"""… and how often that happens at most."""
FULL = 100
"""Messages that are written at a time until a view is over its high water mark."""
CYCLE = 5
"""Rounds between two reductions."""
WINDOW = "[models.'gpt-5.5']\ncontext_window = 100000\n"
"""So small that a thousand messages do not fit."""
WORDS = "the quick brown fox jumps over the lazy dog and runs the tests again "
PLAIN, RECALLING = "go on", "what became of module_77.py and step_77_of?"


@dataclass(slots=True)
class Work:
    """An open thread, its engine, and how long its calls took."""

    thread: Thread
    engine: EngineSession
    took: Figures = field(default_factory=dict)

    async def time(self, part: str, work: Awaitable[T]) -> T:
        """Wait for `work` and note its time and its processor time."""
        clocks = time.perf_counter(), time.process_time()
        result = await work
        self.note(part, *clocks)
        return result

    def note(self, part: str, started: float, busy: float) -> None:
        """Note the milliseconds since both clocks were read."""
        self.took[f"{part}, ms"] = (time.perf_counter() - started) * 1e3
        self.took[f"{part}, CPU ms"] = (time.process_time() - busy) * 1e3

    async def run_turn(self, text: str, items: Sequence[Item], part: str = "assemble") -> None:
        """Run one turn with everything but the model: a step for each answer."""
        thread, given = self.thread, TurnInput(message=user_message(text))
        await self.time("begin", self.engine.begin())
        turn, _ = await thread.log.turns.reserve(given.message)
        opening = await self.time(part, self.engine.assemble(given))
        context = self.engine.with_guidance(await thread.log.setup.observe())
        await thread.log.turns.open(turn, opening, context=context)
        await self.engine.after_open()
        for number, item in enumerate(items):
            await self.engine.before_step(first=number == 0)
            if isinstance(item, FunctionCallOutput):
                await thread.log.append(item)
                continue
            await thread.log.requests.record(thread.request())
            await thread.log.requests.record_answer([item])
        await thread.log.turns.finish()
        await self.time(f"ingest {TURN} messages", self.engine.finish("completed"))


@asynccontextmanager
async def open_work(home: Path, thread: str | None = None) -> AsyncIterator[Work]:
    """Open a thread of `home` from the disk, with the lossless engine."""
    engine = create_engine(EngineContext.of("lossless", home=home, cwd=home))
    store = await SqliteStore.open(home)
    index = SqliteIndex(store, home)
    clocks = time.perf_counter(), time.process_time()
    try:
        async with Thread.open(
            thread,
            model="openai:gpt-5.5",
            cwd=home,
            home=home,
            store=store,
            index=index,
            tools=engine.tools(),
        ) as found:
            choice = EngineChoice.of_host(engine, None)
            work = Work(found, EngineSession(log=found.log, choice=choice))
            work.note("open", *clocks)
            await work.engine.load_tools()
            yield work
            await work.engine.close()
    finally:
        await engine.dispose()
        await index.close()
        await store.close()


def conversation(number: int, words: int = 1) -> tuple[Message, list[Item]]:
    """Return the input of one turn, and the items that answer it."""
    path, call = f"src/part{number % 9}/module_{number}.py", f"call_{number}"
    text = f"Mend {path}: step_{number}_of fails. {WORDS}"
    ran = FunctionCall(
        name="exec_command", arguments=json.dumps({"cmd": f"pytest -q {path}"}), call_id=call
    )
    output = f"Process exited with code 0\nOutput:\n{WORDS * 6 * words}field_{number}"
    answer = f"I keep {path} as it is. {WORDS * 2}"
    return user_message(text), [
        ran,
        FunctionCallOutput(call_id=call, output=output),
        Message(role="assistant", content=(OutputText(answer),)),
    ]


def past_turns(numbers: range) -> Iterator[PastTurn]:
    """Return turns that happened elsewhere."""
    for number in numbers:
        message, items = conversation(number)
        drafts = [item_draft(item, turn=THIS_TURN, step=1) for item in (message, *items)]
        yield PastTurn(id=f"past_{number}", input=Raw(encode_item(message)), entries=tuple(drafts))


async def grow(home: Path, messages: int) -> tuple[str, Figures]:
    """Make a thread with a long past whose view the engine keeps small."""
    home.mkdir()
    (home / "models.toml").write_text(WINDOW)
    async with open_work(home) as work:
        thread = work.thread.id
        await work.run_turn(PLAIN, conversation(0)[1])
    spent, at_once = 0.0, max(STOP, messages // STOPS) // TURN
    for first in range(1, messages // TURN, at_once):
        numbers = range(first, min(first + at_once, messages // TURN))
        spent += await write_turns(home, thread, numbers)
        async with open_work(home, thread) as work:
            await work.run_turn(PLAIN, conversation(first)[1])
    async with open_work(home, thread) as work:
        await work.thread.index.catch_up()
    return thread, {"log, µs a message": spent / messages * 1e6} | file_sizes(home, messages)


async def write_turns(home: Path, thread: str, numbers: range) -> float:
    """Write turns in bulk; return how many seconds the store took."""
    change = Change(past=tuple(past_turns(numbers)))
    async with await SqliteStore.open(home) as store:
        lease = await store.acquire(thread)
        started = time.perf_counter()
        await store.commit(lease, change)
        spent = time.perf_counter() - started
        await lease.release()
    return spent


def file_sizes(home: Path, messages: int) -> Figures:
    """Return the bytes on disk for each message, by file."""
    return {
        f"{path.name}, bytes a message": path.stat().st_size / messages
        for path in sorted(home.rglob("*.db"))
    }


async def measure(homes: dict[int, tuple[Path, str]], rounds: int) -> dict[int, Figures]:
    """Return lower quartiles of what a turn costs at every size, and of a reduction."""
    taken: dict[int, dict[str, list[float]]] = {size: {} for size in homes}
    for number in range(rounds):
        for size, (home, thread) in homes.items():
            for part, figure in (await measure_once(home, thread, number)).items():
                taken[size].setdefault(part, []).append(figure)
    return {
        size: {part: sorted(figures)[len(figures) // 4] for part, figures in parts.items()}
        for size, parts in taken.items()
    }


async def measure_once(home: Path, thread: str, number: int) -> Figures:
    """Measure a turn that names nothing, and one that recalls something."""
    found: Figures = {}
    if number % CYCLE == 0:
        found = await measure_reduction(home, thread, number)
    async with open_work(home, thread) as work:
        await work.run_turn(PLAIN, conversation(number)[1])
        found |= work.took
        await work.run_turn(RECALLING, conversation(number)[1], "assemble and recall")
        found |= {part: took for part, took in work.took.items() if "recall" in part}
    return found


async def measure_reduction(home: Path, thread: str, number: int) -> Figures:
    """Fill a view until the engine reduces it; return how long that took.

    After it, every view is at its low water mark, however long its history.
    """
    for attempt in range(100):
        first = 10_000_000 + (number * 100 + attempt) * FULL
        await write_turns(home, thread, range(first, first + FULL // TURN))
        async with open_work(home, thread) as work:
            base = work.thread.view.base
            await work.run_turn(PLAIN, conversation(first)[1])
            if work.thread.view.base != base:
                await work.thread.index.catch_up([thread])
                return {
                    f"prepare and publish, {unit}": work.took[f"begin, {unit}"]
                    + work.took[f"assemble, {unit}"]
                    for unit in ("ms", "CPU ms")
                }
    raise AssertionError("the view grew and was never reduced")


async def measure_prefix(home: Path, turns: int) -> Figures:
    """Measure how much of each request the one before it had, over many turns."""
    assembling: dict[bool, list[float]] = {True: [], False: []}
    async with open_work(home) as work:
        for number in range(turns):
            base = work.thread.view.base
            message, items = conversation(number, words=5)
            await work.run_turn(str(message.content[0].text), items)  # type: ignore[union-attr]
            assembling[work.thread.view.base != base].append(work.took["assemble, ms"])
        rows = await work.thread.index.rows(work.thread.id)
    later = rows[1:]
    return {
        "requests": len(rows),
        "bytes shared, %": 100 * sum(r.shared_size for r in later) / sum(r.size for r in later),
        "breaks": sum(row.difference is not None for row in later),
        "breaks without a reason": sum(row.unexplained for row in later),
        "assemble, ms": statistics.median(assembling[False]),
        "assemble and publish, ms": statistics.median(assembling[True] or [0.0]),
    }


async def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory(dir=options.home) as directory:
        homes: dict[int, tuple[Path, str]] = {}
        results: dict[int, Figures] = {}
        for size in options.sizes:
            home = Path(directory) / str(size)
            thread, results[size] = await grow(home, size)
            homes[size] = home, thread
        for size, figures in (await measure(homes, options.rounds)).items():
            results[size] |= figures
        prefix = await measure_prefix(Path(directory) / "turns", options.turns)
    print(json.dumps({"sizes": results, "prefix": prefix}, indent=2))
    if not options.json:
        print(render_table(results), "", render_prefix(prefix, options.turns), sep="\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default=[1_000, 10_000, 100_000, 1_000_000],
    )
    return parser.parse_args()


def render_table(results: dict[int, Figures]) -> str:
    """Return one line for each figure, with its ratio to the shortest history."""
    lines = ["| messages |" + "".join(f" {size:,} |" for size in results)]
    lines.append("|---|" + "---|" * len(results))
    first = next(iter(results.values()))
    for name, base in first.items():
        cells = "".join(
            f" {figures[name] / base:.2f}x ({figures[name]:,.1f}) |" for figures in results.values()
        )
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


def render_prefix(prefix: Figures, turns: int) -> str:
    """Return what the ledger says, a line for each figure."""
    lines = [f"{turns:,} turns in one thread"]
    return "\n".join([*lines, *(f"  {name}: {figure:,.2f}" for name, figure in prefix.items())])


if __name__ == "__main__":
    asyncio.run(main())
