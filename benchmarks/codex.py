"""Treadle on the Codex app-server: what is sent, what of it is known, and what we add in time.

A fake model on 127.0.0.1 answers the real binary at once. First, 12 turns with 0.3 KB asked
and 1.5 KB answered, alone and with an engine that brings 3 KB of another memory to each:
bytes sent, and how much of each request its predecessor had (tools and input, ids removed).
Then turns beside those of a directly driven app-server, interleaved; the start; and what a
new epoch costs. Lower quartiles.

    python -m benchmarks.codex [--turns 12] [--rounds 40] [--sizes 100,1000,5000]
                               [--codex BINARY] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Raw

from treadle import Thread
from treadle.context.compose import item_draft
from treadle.core.items import Message, OutputText, encode_item
from treadle.engines.contract import EngineInfo
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    CompactParams,
    CompactResult,
    IngestParams,
    IngestResult,
    recall_item,
)
from treadle.harness.codex.codex_options import CodexOptions, ProjectionMode
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.codex.protocol.client_requests import StartThread, StartTurn, TextInput
from treadle.harness.codex.protocol.notifications import TurnCompletedNotification
from treadle.harness.codex.protocol.server_requests import ClientReply as Reply
from treadle.harness.codex.protocol.server_requests import ServerRequest
from treadle.harness.codex.server_access import PROVIDER
from treadle.harness.codex.server_connection import AppServerConnection
from treadle.harness.codex.start_requests import THREAD_CONFIG
from treadle.harness.codex.thread_events import Subscription
from treadle.harness.events import Event, HarnessReported, TurnStarted
from treadle.models.providers import ProviderConfig
from treadle.prompt.input import user_message
from treadle.store.contract import THIS_TURN, Change, PastTurn
from treadle.store.sqlite import SqliteStore
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script
from treadle.testing.thread_keywords import open_keywords

Figures: TypeAlias = dict[str, float]

MODEL = "openai:gpt-5.5"
QUESTION, ANSWER, MEMORY = 300, 1_500, 3_000
REBASED = (5, 9)
"""The turns before which the engine lets go of all but the newest items."""
KEPT = 4


class Recalling:
    """Brings a memory to each turn, another one every time."""

    info = EngineInfo(id="recalling", name="Recalling")

    def __init__(self, rebased: Sequence[int] = ()) -> None:
        self.rebased, self.turn = rebased, 0

    async def ingest(self, _: IngestParams, /) -> IngestResult:
        """Keep nothing: what it knows it makes up."""
        return IngestResult(False)

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """The items, or the newest of them, and a memory before the input."""
        self.turn += 1
        past = given.items[:-1][-KEPT:] if self.turn in self.rebased else given.items[:-1]
        memory = recall_item(text(f"memory {self.turn}", MEMORY))
        return AssembleResult(items=(*past, memory, given.items[-1]))

    async def compact(self, _: CompactParams, /) -> CompactResult:
        """Compact nothing."""
        return CompactResult(ok=False, reason="nothing is compacted here")


class Place:
    """Homes, a model and a harness in front of it."""

    def __init__(self, directory: Path, server: FakeServer, options: CodexOptions) -> None:
        self.server, self.directory = server, directory
        for name in ("home", "treadle", "project"):
            (directory / name).mkdir(parents=True)
        self.settings: dict[str, Any] = {
            "environ": {"PATH": os.environ["PATH"], "HOME": str(directory / "home")},
            "providers": {
                "openai": ProviderConfig(
                    api="responses", base_url=server.base_url, key="sk-planted", retries=0
                )
            },
            "home": directory / "treadle",
        }
        self.harness = CodexHarness(options, **self.settings)

    def thread(self, name: str | None = None, **options: Any) -> Any:
        """A thread on the harness."""
        return Thread.open(
            name,
            **open_keywords(
                model=MODEL,
                harness=self.harness,
                cwd=self.directory / "project",
                sandbox="danger-full-access",
                approval="never",
                **self.settings,
                **options,
            ),
        )

    async def connection(self) -> AppServerConnection:
        """The connection to the harness's app-server."""
        way = self.harness.servers.access("openai")
        return await (await self.harness.servers.server(way, unlimited=False)).connection()

    async def directly(self) -> tuple[AppServerConnection, str, Subscription]:
        """A thread of Codex's that Treadle knows nothing of."""
        connection, way = await self.connection(), self.harness.servers.access("openai")
        start = StartThread(
            cwd=str(self.directory / "project"),
            model="gpt-5.5",
            model_provider=PROVIDER,
            approval_policy="never",
            sandbox="danger-full-access",
            config={**THREAD_CONFIG, **(way.route.config() if way.route else {})},
        )
        opened, events = await connection.open_thread(start, refused)
        return connection, opened.thread.id, events


@asynccontextmanager
async def make_place(options: CodexOptions) -> AsyncIterator[Place]:
    """A place that is removed afterwards."""
    answers = [Answer(text=text(f"answer {number}", ANSWER)) for number in range(2_000)]
    with tempfile.TemporaryDirectory() as directory:
        async with FakeServer(Script(answers=tuple(answers))) as server:
            place = Place(Path(directory) / "place", server, options)
            try:
                yield place
            finally:
                await place.harness.close()


async def refused(ask: ServerRequest) -> Reply:
    raise AssertionError(f"nothing should be asked, but was: {ask.method}")


def text(about: str, size: int) -> str:
    """So many characters that are like no others."""
    words = (f"{about}, word {number}. " for number in range(size))
    return "".join(word for word, _ in zip(words, range(size // 10), strict=False))[:size]


async def measure_projection(
    options: CodexOptions, mode: ProjectionMode, engine: Recalling | None, turns: int
) -> Figures:
    """What the requests of some turns have in common."""
    async with make_place(CodexOptions(binary=options.binary, projection=mode)) as place:
        async with place.thread(engine=engine) as thread:
            for number in range(turns):
                await turn(thread, text(f"question {number}", QUESTION))
        requests = list(place.server.requests)
    bodies = [comparable_text(request.payload) for request in requests]
    shared = [in_common(*pair) for pair in pairwise(bodies)]
    later = sum(map(len, bodies[1:]))
    return {
        "sent, KB": sum(len(request.body) for request in requests) / 1_000,
        "prefix, %": 100 * sum(shared) / later,
        "uncached, KB": (later - sum(shared)) / 1_000,
        "Codex threads": len({request.payload["prompt_cache_key"] for request in requests}),
    }


def comparable_text(payload: dict[str, Any]) -> str:
    """Tools and input as text, without names that differ from run to run."""
    items = [{k: v for k, v in item.items() if k != "id"} for item in payload["input"]]
    return json.dumps(payload["tools"]) + json.dumps(items)


def in_common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


async def turn(thread: Thread, said: str) -> float:
    """A turn; how many milliseconds it took."""
    started = time.perf_counter()
    events = [event async for event in thread.run(said)]
    assert events[-1].status == "completed", events[-1]  # type: ignore[union-attr]
    return (time.perf_counter() - started) * 1e3


async def direct_turn(connection: AppServerConnection, thread: str, events: Subscription) -> float:
    started = time.perf_counter()
    said = (TextInput(text=text("question", QUESTION)),)
    await connection.call(StartTurn(thread_id=thread, input=said))
    async for event in events:
        if isinstance(event, TurnCompletedNotification):
            break
    return (time.perf_counter() - started) * 1e3


async def overhead(options: CodexOptions, rounds: int) -> Figures:
    """Starting, and turns of ours beside turns without us, on one app-server."""
    async with make_place(options) as place:
        started = time.perf_counter()
        await place.connection()
        start = (time.perf_counter() - started) * 1e3
        connection, name, events = await place.directly()
        direct, ours = [], []
        async with place.thread() as thread:
            first = await turn(thread, "hello")
            await direct_turn(connection, name, events)
            for _ in range(rounds):
                direct.append(await direct_turn(connection, name, events))
                ours.append(await turn(thread, text("question", QUESTION)))
    alone, with_us = quartile(direct), quartile(ours)
    return {
        "start with a new home, ms": start,
        "first turn, ms": first,
        "a direct turn, ms": alone,
        "a turn, ms": with_us,
        "ratio": with_us / alone,
    }


def quartile(figures: Sequence[float]) -> float:
    """The lower quartile, for machines are shared."""
    return sorted(figures)[len(figures) // 4]


async def epochs(options: CodexOptions, sizes: Sequence[int], rounds: int) -> dict[int, Figures]:
    """What it takes to show a past of some size to a new Codex thread."""
    taken: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    async with make_place(options) as place:
        await place.connection()
        for _ in range(rounds):
            for size in sizes:
                taken[size].append(await measure_past(place, size))
    return {
        size: {
            "start and inject, ms": quartile([attached for attached, _ in times]),
            "the whole turn, ms": quartile([whole for _, whole in times]),
        }
        for size, times in taken.items()
    }


async def measure_past(place: Place, items: int) -> tuple[float, float]:
    """A turn behind a past: when Codex knew the past, and when the turn was over."""
    name = await write_thread(place.directory / "treadle", items)
    async with place.thread(name) as thread:
        clock = Clock()
        thread.observers.append(clock)
        whole = await turn(thread, "go on")
    return clock.attached, whole


class Clock:
    """Takes the time from the start of a turn until Codex knows the view."""

    def __init__(self) -> None:
        self.attached = self._started = 0.0

    def __call__(self, event: Event) -> None:
        """Look at the clock."""
        if isinstance(event, TurnStarted):
            self._started = time.perf_counter()
        elif isinstance(event, HarnessReported):
            self.attached = (time.perf_counter() - self._started) * 1e3


async def write_thread(home: Path, items: int) -> str:
    """A thread with so many items, half asked and half answered."""
    async with await SqliteStore.open(home) as store:
        thread = await store.create()
        lease = await store.acquire(thread.id)
        await store.commit(lease, Change(past=tuple(past(items // 2))))
        await lease.release()
        return thread.id


def past(turns: int) -> Iterator[PastTurn]:
    for number in range(turns):
        said = user_message(text(f"question {number}", 100))
        answer = Message(role="assistant", content=(OutputText(text(f"answer {number}", 100)),))
        drafts = [item_draft(item, turn=THIS_TURN, step=1) for item in (said, answer)]
        yield PastTurn(id=f"past_{number}", input=Raw(encode_item(said)), entries=tuple(drafts))


async def main() -> None:
    options = arguments()
    codex, turns = CodexOptions(binary=options.codex), options.turns
    rows = {
        "Codex alone": await measure_projection(codex, "native", None, turns),
        "native, with memories": await measure_projection(codex, "native", Recalling(), turns),
        "text, with memories": await measure_projection(codex, "text", Recalling(), turns),
        "native, re-based twice": await measure_projection(
            codex, "native", Recalling(REBASED), turns
        ),
        "text, re-based twice": await measure_projection(codex, "text", Recalling(REBASED), turns),
    }
    times = await overhead(codex, options.rounds)
    costs = await epochs(codex, options.sizes, max(1, options.rounds // 8))
    print(json.dumps({"projection": rows, "turns": times, "epochs": costs}, indent=2))
    if not options.json:
        print(table(f"{turns} turns", rows), table("items", costs), sep="\n\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--codex", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--sizes",
        type=lambda told: [int(size) for size in told.split(",")],
        default=[100, 1_000, 5_000],
    )
    return parser.parse_args()


def table(name: str, rows: dict[Any, Figures]) -> str:
    """One line for each row, one column for each figure."""
    columns = next(iter(rows.values()))
    lines = [f"| {name} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for row, figures in rows.items():
        cells = " | ".join(f"{figure:,.1f}".removesuffix(".0") for figure in figures.values())
        lines.append(f"| {row} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    asyncio.run(main())
