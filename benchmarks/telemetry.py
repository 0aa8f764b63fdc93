"""What telemetry costs a turn: turned off, and on with an exporter that keeps spans in memory.

The same turn of ten tool rounds, in rounds that are interleaved: with no line of telemetry around
the thread, with what the command line puts around it while the settings leave it off, and on.
Measured is processor time. The first is measured twice: what both differ by is noise.

    python -m benchmarks.telemetry [--rounds 60] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from treadle import Rights, Thread, ToolOptions, tool
from treadle.cli.followed_threads import follow_thread
from treadle.config import Settings
from treadle.store.memory import MemoryStore
from treadle.testing.script import Answer, Call
from treadle.testing.scripted import ScriptedModel

CALLS = 10
Follow = Callable[[Thread], AbstractAsyncContextManager[None]]


@tool
async def look() -> str:
    """Look."""
    return "nothing new"


def nothing(thread: Thread) -> AbstractAsyncContextManager[None]:
    """Put nothing around a thread."""
    del thread
    return nullcontext()


def turned_off(thread: Thread) -> AbstractAsyncContextManager[None]:
    """Put around a thread what the command line does without settings."""
    return follow_thread(thread, Settings())


def turned_on() -> Follow:
    """Return what follows a thread and keeps its spans in memory."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from treadle.otel.telemetry import Telemetry

    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return Telemetry(tracers).follow


async def turn(place: str, follow: Follow) -> float:
    """Return the milliseconds of a processor that a turn took."""
    calls = [Answer(calls=(Call(name="look", arguments={}),))] * CALLS
    model = ScriptedModel([*calls, Answer(text="done")])
    store = MemoryStore()
    async with (
        Thread.open(
            model=model,
            cwd=place,
            home=place,
            store=store,
            tools=ToolOptions(tools=(look,)),
            rights=Rights(sandbox="danger-full-access", approval="never"),
        ) as thread,
        follow(thread),
    ):
        began = time.process_time()
        async for _ in thread.run("go"):
            pass
        took = time.process_time() - began
    await model.close()
    return took * 1e3


async def measure(rounds: int) -> dict[str, list[float]]:
    """Return the times of each way, in interleaved rounds."""
    took: dict[str, list[float]] = {"nothing": [], "off": [], "nothing again": [], "on": []}
    with tempfile.TemporaryDirectory() as place:
        ways: dict[str, Follow] = {"nothing": nothing, "off": turned_off, "nothing again": nothing}
        for number in range(rounds + 3):
            for label, follow in ways.items():
                spent = await turn(place, follow)
                if number >= 3:  # the first ones warm up
                    took[label].append(spent)
        assert not any(name.startswith("opentelemetry") for name in sys.modules)
        on = turned_on()
        for number in range(rounds + 3):
            spent = await turn(place, on)
            if number >= 3:
                took["on"].append(spent)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    took = asyncio.run(measure(asked.rounds))
    if asked.json:
        print(json.dumps(took))
        return
    base = statistics.median(took["nothing"])
    for label, times in took.items():
        middle = statistics.median(times)
        print(
            f"{label}: {middle:.2f} ms of a processor for {CALLS} rounds, {middle / base:.2f} times"
        )


if __name__ == "__main__":
    main()
