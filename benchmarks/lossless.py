"""The lossless engine at growing histories: what a turn costs when nothing is forgotten.

Histories are written in bulk as turns that happened elsewhere; at each stop the thread is
opened again and the engine brings its view down, with extracts, for no model is asked. What
is measured goes through the real seam: open, begin, assemble, record, hand over. Lower
quartiles of interleaved rounds, for machines are shared. Last, a thread runs 1,000 turns, and
the ledger tells what they shared.

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
from treadle.engines.lossless.engine import create_engine
from treadle.engines.offers import EngineContext
from treadle.engines.session import EngineSession
from treadle.engines.slot import EngineChoice
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
"""Rounds between two steps down."""
WINDOW = "[models.'gpt-5.5']\ncontext_window = 100000\n"
"""Small enough for a thousand messages not to fit."""
WORDS = "the quick brown fox jumps over the lazy dog and runs the tests again "
PLAIN, RECALLING = "go on", "what became of module_77.py and step_77_of?"


@dataclass(slots=True)
class Work:
    """A thread that is open, its engine, and how long things took."""

    thread: Thread
    engine: EngineSession
    took: Figures = field(default_factory=dict)

    async def timed(self, part: str, work: Awaitable[T]) -> T:
        """What `work` gives; how long that takes, and how long a processor is busy with it."""
        clocks = time.perf_counter(), time.process_time()
        result = await work
        self.note(part, *clocks)
        return result

    def note(self, part: str, started: float, busy: float) -> None:
        """Note the milliseconds since both clocks were read."""
        self.took[f"{part}, ms"] = (time.perf_counter() - started) * 1e3
        self.took[f"{part}, CPU ms"] = (time.process_time() - busy) * 1e3

    async def turn(self, said: str, items: Sequence[Item], part: str = "assemble") -> None:
        """One turn with everything but the model: a step for each answer."""
        thread, given = self.thread, TurnInput(message=user_message(said))
        await self.timed("begin", self.engine.begin())
        turn, _ = await thread.log.turns.reserve(given.message)
        opening = await self.timed(part, self.engine.assemble(given))
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
        await self.timed(f"ingest {TURN} messages", self.engine.finish("completed"))


@asynccontextmanager
async def opened(home: Path, thread: str | None = None) -> AsyncIterator[Work]:
    """A thread of `home`, opened from the disk, with the lossless engine."""
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
            slot = EngineChoice.of_host(engine, None)
            work = Work(found, EngineSession(log=found.log, choice=slot))
            work.note("open", *clocks)
            await work.engine.load_tools()
            yield work
            await work.engine.close()
    finally:
        await engine.dispose()
        await index.close()
        await store.close()


def conversation(number: int, words: int = 1) -> tuple[Message, list[Item]]:
    """What is said in one turn, and what answers it."""
    path, call = f"src/part{number % 9}/module_{number}.py", f"call_{number}"
    said = f"Mend {path}: step_{number}_of fails. {WORDS}"
    ran = FunctionCall(
        name="exec_command", arguments=json.dumps({"cmd": f"pytest -q {path}"}), call_id=call
    )
    put_out = f"Process exited with code 0\nOutput:\n{WORDS * 6 * words}field_{number}"
    answer = f"I keep {path} as it is. {WORDS * 2}"
    return user_message(said), [
        ran,
        FunctionCallOutput(call_id=call, output=put_out),
        Message(role="assistant", content=(OutputText(answer),)),
    ]


def past(numbers: range) -> Iterator[PastTurn]:
    """Turns that happened elsewhere."""
    for number in numbers:
        said, items = conversation(number)
        drafts = [item_draft(item, turn=THIS_TURN, step=1) for item in (said, *items)]
        yield PastTurn(id=f"past_{number}", input=Raw(encode_item(said)), entries=tuple(drafts))


async def grow(home: Path, messages: int) -> tuple[str, Figures]:
    """A thread with a long past whose view the engine keeps small."""
    home.mkdir()
    (home / "models.toml").write_text(WINDOW)
    async with opened(home) as work:
        thread = work.thread.id
        await work.turn(PLAIN, conversation(0)[1])
    spent, at_once = 0.0, max(STOP, messages // STOPS) // TURN
    for first in range(1, messages // TURN, at_once):
        numbers = range(first, min(first + at_once, messages // TURN))
        spent += await written(home, thread, numbers)
        async with opened(home, thread) as work:
            await work.turn(PLAIN, conversation(first)[1])
    async with opened(home, thread) as work:
        await work.thread.index.catch_up()
    return thread, {"log, µs a message": spent / messages * 1e6} | sizes(home, messages)


async def written(home: Path, thread: str, numbers: range) -> float:
    """Write turns in bulk; how many seconds the store took."""
    change = Change(past=tuple(past(numbers)))
    async with await SqliteStore.open(home) as store:
        lease = await store.acquire(thread)
        started = time.perf_counter()
        await store.commit(lease, change)
        spent = time.perf_counter() - started
        await lease.release()
    return spent


def sizes(home: Path, messages: int) -> Figures:
    """Bytes on disk for each message, by file."""
    return {
        f"{path.name}, bytes a message": path.stat().st_size / messages
        for path in sorted(home.rglob("*.db"))
    }


async def measure(homes: dict[int, tuple[Path, str]], rounds: int) -> dict[int, Figures]:
    """Lower quartiles of what a turn costs at every size, and of a step down."""
    taken: dict[int, dict[str, list[float]]] = {size: {} for size in homes}
    for number in range(rounds):
        for size, (home, thread) in homes.items():
            for part, figure in (await once(home, thread, number)).items():
                taken[size].setdefault(part, []).append(figure)
    return {
        size: {part: sorted(figures)[len(figures) // 4] for part, figures in parts.items()}
        for size, parts in taken.items()
    }


async def once(home: Path, thread: str, number: int) -> Figures:
    """A turn that names nothing, and one that is reminded of something."""
    found: Figures = {}
    if number % CYCLE == 0:
        found = await stepped_down(home, thread, number)
    async with opened(home, thread) as work:
        await work.turn(PLAIN, conversation(number)[1])
        found |= work.took
        await work.turn(RECALLING, conversation(number)[1], "assemble and recall")
        found |= {part: took for part, took in work.took.items() if "recall" in part}
    return found


async def stepped_down(home: Path, thread: str, number: int) -> Figures:
    """Fill a view until the engine brings it down; how long that took.

    After it, every view is at its low water mark, however long its history.
    """
    for attempt in range(100):
        first = 10_000_000 + (number * 100 + attempt) * FULL
        await written(home, thread, range(first, first + FULL // TURN))
        async with opened(home, thread) as work:
            base = work.thread.view.base
            await work.turn(PLAIN, conversation(first)[1])
            if work.thread.view.base != base:
                await work.thread.index.catch_up([thread])
                return {
                    f"prepare and publish, {unit}": work.took[f"begin, {unit}"]
                    + work.took[f"assemble, {unit}"]
                    for unit in ("ms", "CPU ms")
                }
    raise AssertionError("the view grew and was never brought down")


async def kept(home: Path, turns: int) -> Figures:
    """How much of each request its predecessor had, over many turns of one thread."""
    assembling: dict[bool, list[float]] = {True: [], False: []}
    async with opened(home) as work:
        for number in range(turns):
            base = work.thread.view.base
            said, items = conversation(number, words=5)
            await work.turn(str(said.content[0].text), items)  # type: ignore[union-attr]
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
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.home) as directory:
        homes: dict[int, tuple[Path, str]] = {}
        results: dict[int, Figures] = {}
        for size in options.sizes:
            home = Path(directory) / str(size)
            thread, results[size] = await grow(home, size)
            homes[size] = home, thread
        for size, figures in (await measure(homes, options.rounds)).items():
            results[size] |= figures
        prefix = await kept(Path(directory) / "turns", options.turns)
    print(json.dumps({"sizes": results, "prefix": prefix}, indent=2))
    if not options.json:
        print(table(results), "", told(prefix, options.turns), sep="\n")


def arguments() -> argparse.Namespace:
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


def table(results: dict[int, Figures]) -> str:
    """One line for each figure, with its ratio to the shortest history."""
    lines = ["| messages |" + "".join(f" {size:,} |" for size in results)]
    lines.append("|---|" + "---|" * len(results))
    first = next(iter(results.values()))
    for name, base in first.items():
        cells = "".join(
            f" {figures[name] / base:.2f}x ({figures[name]:,.1f}) |" for figures in results.values()
        )
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


def told(prefix: Figures, turns: int) -> str:
    """What the ledger says, in a line for each figure."""
    lines = [f"{turns:,} turns in one thread"]
    return "\n".join([*lines, *(f"  {name}: {figure:,.2f}" for name, figure in prefix.items())])


if __name__ == "__main__":
    asyncio.run(main())
