"""Open, append and render at growing log lengths with a bounded view.

Each thread is re-based regularly, as compaction does, so that its view stays small
while its log grows. What a turn costs must then not depend on the log's length.
Prints medians and their ratio to the shortest log, measured interleaved in one run.

    python -m benchmarks.log [--sizes 1000,10000,100000] [--rounds 15] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Raw

from treadle.context.compose import item_draft
from treadle.core.entries import Inline, Range, Reason, Recipe
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Message,
    OutputText,
    encode_item,
)
from treadle.store.contract import Change
from treadle.store.sqlite import SqliteStore
from treadle.thread.thread import Thread

WORDS = "the quick brown fox jumps over the lazy dog and runs the tests again " * 6
CHUNK = 1_000
LIVE = 200
"""Rows a view keeps when it is re-based."""


async def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        threads = {size: await grow(home, size) for size in options.sizes}
        results = await measure(home, threads, options.rounds)
    print(json.dumps(results, indent=2) if options.json else table(results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default=[1_000, 10_000, 100_000],
    )
    return parser.parse_args()


async def grow(home: Path, entries: int) -> str:
    """A thread with at least `entries` entries and a view of about `LIVE` rows."""
    async with Thread.open(model="openai:gpt-5.5", cwd=home, home=home) as thread:
        await thread.log.turns.admit("start")
        while thread.view.upto < entries:
            drafts = [item_draft(item, turn=1, step=1) for item in conversation(CHUNK // 4)]
            await thread.log.commit(Change(entries=tuple(drafts)))
            await compact(thread)
        return thread.id


def conversation(steps: int) -> list[Message | FunctionCall | FunctionCallOutput]:
    items: list[Message | FunctionCall | FunctionCallOutput] = []
    for step in range(steps):
        items += [
            Message(role="user", content=(InputText(f"step {step}: {WORDS}"),)),
            FunctionCall(name="exec_command", arguments='{"cmd":"ls"}', call_id=f"c{step}"),
            FunctionCallOutput(call_id=f"c{step}", output=WORDS),
            Message(role="assistant", content=(OutputText(WORDS),)),
        ]
    return items


async def compact(thread: Thread) -> None:
    """Re-base onto the first context, a summary and the newest rows."""
    first, newest = thread.view.rows[0].seq or 1, thread.view.upto
    summary = Message(role="user", content=(InputText(WORDS),))
    recipe = Recipe(
        (
            Range(first, first + 2),
            Inline(body=Raw(encode_item(summary)), tokens=100),
            Range(newest - LIVE + 1, newest),
        )
    )
    await thread.log.epochs.publish(recipe, epoch=thread.view.epoch, reason=Reason.COMPACTION)


async def measure(home: Path, threads: dict[int, str], rounds: int) -> dict[str, dict[int, float]]:
    samples: dict[str, dict[int, list[float]]] = {
        part: {size: [] for size in threads} for part in ("open", "append", "render", "turn")
    }
    for _ in range(rounds):
        for size, thread in threads.items():
            for part, seconds in (await one_turn(home, thread)).items():
                samples[part][size].append(seconds)
    return {
        part: {size: statistics.median(times) * 1_000 for size, times in sizes.items()}
        for part, sizes in samples.items()
    }


async def one_turn(home: Path, thread_id: str) -> dict[str, float]:
    store = await SqliteStore.open(home)
    took: dict[str, float] = {}

    async def timed(part: str, work: Callable[[], Awaitable[object]]) -> None:
        started = time.perf_counter()
        await work()
        took[part] = time.perf_counter() - started

    try:
        started = time.perf_counter()
        async with Thread.open(thread_id, home=home, store=store) as thread:
            took["open"] = time.perf_counter() - started
            thread.log.turn = 1
            await timed("append", lambda: thread.log.append(conversation(1)[0]))
            started = time.perf_counter()
            thread.request()
            took["render"] = time.perf_counter() - started
            await timed("turn", lambda: a_turn(thread))
            await thread.rollback(1)
    finally:
        await store.close()
    return took


async def a_turn(thread: Thread) -> None:
    """Admit, request, answer: everything but the model."""
    await thread.log.turns.admit("and now?")
    await thread.log.requests.record(thread.request())
    await thread.log.requests.record_answer(
        [Message(role="assistant", content=(OutputText("done"),))]
    )
    await thread.log.turns.finish()


def table(results: dict[str, dict[int, float]]) -> str:
    sizes = list(next(iter(results.values())))
    lines = ["entries in the log   " + "".join(f"{size:>16,}" for size in sizes)]
    for part, times in results.items():
        base = times[sizes[0]]
        cells = (f"{times[size]:8.2f} ms {times[size] / base:4.2f}x" for size in sizes)
        lines.append(f"{part:<21}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    asyncio.run(main())
