"""What many machines cost: the same thread on SQLite and on PostgreSQL, and several workers.

    python -m benchmarks.scale            # about five minutes
    python -m benchmarks.scale --quick    # the same with small numbers

Everything is measured in one run on one machine. PostgreSQL is reached over a socket of this
machine, and through a proxy that adds half a millisecond each way. What is compared is measured
in turn, again and again: so whatever else the machine does slows all of it down alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct, structs

from benchmarks.delay import delayed
from treadle import Rights, Thread
from treadle.store import PostgresStore, SqliteStore, Store
from treadle.store.contract import Change
from treadle.testing import ScriptedModel
from treadle.testing.contracts.drafts import user_draft
from treadle.testing.postgres import PostgresServer
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool

ROUNDS = 40
_LAPS = 5
_HALF_A_MILLISECOND = 0.0005
_DURABLE = ("fsync=on", "synchronous_commit=on")


def median_ms(times: list[float]) -> float:
    return round(statistics.median(times) * 1000, 2)


@tool
async def act() -> str:
    """Do nothing, at once."""
    return "done"


class Side:
    """A thread in one of the stores that are compared."""

    def __init__(self, thread: Thread, store: Store) -> None:
        self._thread, self._store = thread, store
        self.found: dict[str, list[float]] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: SqliteStore | PostgresStore, place: Path, rounds: int
    ) -> AsyncIterator[Side]:
        called = Call(name="act", arguments={})
        lap = (*(Answer(calls=(called,)) for _ in range(rounds)), Answer(text="done"))
        turn = Answer(when="turn", text="done", times=0)
        model = ScriptedModel([turn, *lap * (_LAPS + 1)])
        rights = Rights(sandbox="danger-full-access", approval="never")
        async with (
            store,
            Thread.open(
                model=model, cwd=place, home=place, store=store, tools=(act,), rights=rights
            ) as thread,
        ):
            yield cls(thread, store)
        await model.close()

    async def measure(self, title: str, work: str, parts: int = 1) -> None:
        """Take one turn, or ask one question; note milliseconds for each of its parts."""
        begin = time.perf_counter()
        if work == "ask":
            await self._store.info(self._thread.id)
        else:
            async for _ in self._thread.run(work):
                pass
        taken = time.perf_counter() - begin
        self.found.setdefault(title, []).append(taken / parts)


async def tool_rounds(sides: dict[str, Side], rounds: int) -> dict[str, dict[str, float]]:
    """Turns of many tool rounds, turns without any, and questions: milliseconds each."""
    for side in sides.values():
        await side.measure("warm", "act")  # statements are prepared, caches are filled
        side.found.clear()
    for _ in range(_LAPS):
        for side in sides.values():
            await side.measure("tool round ms", "act", rounds)
    for number in range(rounds):
        for side in sides.values():
            await side.measure("turn ms", f"turn {number}")
            await side.measure("question ms", "ask")
    return {
        name: {title: median_ms(times) for title, times in side.found.items()}
        for name, side in sides.items()
    }


WORKER = """
import asyncio, sys
from contextlib import asynccontextmanager
from pathlib import Path
from treadle import Rights, Thread
from treadle.hosts import Worker, WorkerBounds
from treadle.store import PostgresStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool
address, place, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])

@tool
async def act() -> str:
    "Wait."
    print("acting", flush=True)
    await asyncio.sleep(seconds)
    return "acted"

async def main():
    model = ScriptedModel([
        Answer(when="wait", calls=(Call(name="act", arguments={}),), times=0),
        Answer(text="fine", times=0),
    ])
    store = await PostgresStore.open(address)
    @asynccontextmanager
    async def opened(info):
        rights = Rights(sandbox="danger-full-access", approval="never")
        async with Thread.open(
            info.id, model=model, home=place, store=store, tools=(act,), rights=rights
        ) as thread:
            yield thread
    told = lambda news: print(type(news).__name__, flush=True)
    print("ready", flush=True)
    sys.stdin.readline()
    await Worker(store, opened, bounds=WorkerBounds(turns=8), report=told).run()

asyncio.run(main())
"""


class Process:
    """A worker, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, address: str, place: Path, seconds: float) -> Process:
        place.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER, address, str(place), str(seconds)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        started = cls(process)
        await started.until("ready")
        return started

    async def until(self, word: str) -> None:
        assert self._process.stdout is not None
        while (line := await self._process.stdout.readline()).decode().strip() != word:
            if not line:
                raise RuntimeError(f"a worker ended before it said {word!r}")

    async def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()

    async def kill(self) -> None:
        if self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    async def drop_output(self) -> None:
        assert self._process.stdout is not None
        while await self._process.stdout.read(1 << 16):
            pass


async def turns_per_second(address: str, place: Path, workers: int, turns: int) -> float:
    """How many turns so many workers run in a second, over threads that all wait."""
    async with await PostgresStore.open(address) as store:
        for _ in range(turns):
            thread = (await store.create(cwd=str(place))).id
            await Thread.post(thread, "hello", store=store)
        fleet = [await Process.start(address, place / f"w{n}", 0) for n in range(workers)]
        dropping = [asyncio.create_task(each.drop_output()) for each in fleet]
        begin = time.perf_counter()
        for each in fleet:
            await each.go()
        while await store.waiting(limit=1):  # noqa: ASYNC110 - other processes work
            await asyncio.sleep(0.02)
        taken = time.perf_counter() - begin
        for each in fleet:
            await each.kill()
        await asyncio.gather(*dropping)
    return round(turns / taken, 1)


async def takeover_seconds(address: str, place: Path, rounds: int) -> list[float]:
    """How long a turn of a killed worker stands still."""
    found = []
    async with await PostgresStore.open(address) as store:
        for number in range(rounds):
            first = await Process.start(address, place / f"a{number}", 600)
            second = await Process.start(address, place / f"b{number}", 0)
            thread = (await store.create(cwd=str(place))).id
            await first.go()
            await Thread.post(thread, "wait", store=store)
            await first.until("acting")
            await second.go()
            begin = time.perf_counter()
            await first.kill()
            await second.until("TurnTaken")
            found.append(round(time.perf_counter() - begin, 2))
            await second.until("TurnEnded")
            await second.kill()
    return found


class Sized:
    """A store with so many threads and entries, and a thread in it that is written."""

    def __init__(self, store: SqliteStore | PostgresStore, threads: int, entries: int = 0) -> None:
        self.store, self._threads, self._entries = store, threads, entries

    async def fill(self) -> None:
        thread = (await self.store.create()).id
        self._lease = await self.store.acquire(thread)
        await _make(self.store.create, self._threads - 1)
        page, each = 2_000, self._entries // 20
        for _ in range(20 if each else 0):
            own = await self.store.acquire((await self.store.create()).id)
            for first in range(0, each, page):
                drafts = [user_draft(f"entry {first + n}") for n in range(min(page, each - first))]
                await self.store.commit(own, Change(entries=tuple(drafts)))
            await own.release()

    async def commit(self) -> float:
        begin = time.perf_counter()
        await self.store.commit(self._lease, Change(entries=(user_draft("x" * 500),)))
        return time.perf_counter() - begin

    async def close(self) -> None:
        await self._lease.release()
        await self.store.close()


async def commit_cost(sized: dict[str, Sized], samples: int) -> dict[str, float]:
    """Milliseconds of a durable commit, at so many threads and entries."""
    for each in sized.values():
        await each.fill()
    found: dict[str, list[float]] = {title: [] for title in sized}
    for _ in range(samples):
        for title, each in sized.items():
            found[title].append(await each.commit())
    for each in sized.values():
        await each.close()
    return {title: median_ms(times) for title, times in found.items()}


async def _make(one: Callable[[], Awaitable[object]], count: int) -> int:
    for first in range(0, count, 100):
        await asyncio.gather(*(one() for _ in range(min(100, count - first))))
    return max(count, 0)


async def measure(*, quick: bool) -> dict[str, object]:
    rounds = 5 if quick else ROUNDS
    turns, threads, entries = (20, 200, 2_000) if quick else (200, 10_000, 1_000_000)
    server = await asyncio.to_thread(PostgresServer, settings=_DURABLE)
    try:
        with tempfile.TemporaryDirectory() as directory:
            sizes = _Sizes(rounds, turns, threads, entries)
            return await _measure(server, Path(directory), sizes)
    finally:
        server.close()


class _Told(dict[str, object]):
    """What was measured; each part is told on standard error as soon as it is known."""

    def __setitem__(self, part: str, found: object) -> None:
        super().__setitem__(part, found)
        print(json.dumps({part: found}), file=sys.stderr, flush=True)


class _Sizes(Struct, frozen=True):
    rounds: int
    turns: int
    threads: int
    entries: int


async def _measure(server: PostgresServer, place: Path, sizes: _Sizes) -> dict[str, object]:
    rounds, turns, threads, entries = structs.astuple(sizes)
    done = _Told()
    for name, found in (await _compare(server, place, rounds)).items():
        done[name] = found
    fleet, takeover = server.create("fleet"), server.create("takeover")
    done["turns per second"] = {
        str(workers): await turns_per_second(fleet, place, workers, turns) for workers in (1, 2, 4)
    }
    done["takeover seconds"] = await takeover_seconds(takeover, place, 2 if rounds < ROUNDS else 7)
    wanted = {
        "1 thread": (1, 0),
        "100 threads": (100, 0),
        f"{threads:,} threads": (threads, 0),
        f"{threads:,} threads, {entries:,} entries": (threads, entries),
    }
    samples = 20 if rounds < ROUNDS else 200
    sized = {
        title: Sized(await SqliteStore.open(place / f"size{number}"), *size)
        for number, (title, size) in enumerate(wanted.items())
    }
    done["commit ms, SQLite"] = await commit_cost(sized, samples)
    sized = {
        title: Sized(await PostgresStore.open(server.create(f"size{number}")), *size)
        for number, (title, size) in enumerate(wanted.items())
    }
    done["commit ms, PostgreSQL"] = await commit_cost(sized, samples)
    return done


async def _compare(server: PostgresServer, place: Path, rounds: int) -> dict[str, object]:
    """The same work on SQLite, over a socket, and a millisecond away."""
    near = f"{server.create('near')}?host={server.directory}"
    server.create("far")
    with delayed(server.port, _HALF_A_MILLISECOND) as port:
        stores: dict[str, SqliteStore | PostgresStore] = {
            "SQLite": await SqliteStore.open(place / "sqlite"),
            "PostgreSQL": await PostgresStore.open(near),
            "PostgreSQL, 1 ms away": await PostgresStore.open(server.url("far", port=port)),
        }
        async with AsyncExitStack() as stack:
            sides = {
                name: await stack.enter_async_context(Side.open(store, place / name, rounds))
                for name, store in stores.items()
            }
            return dict(await tool_rounds(sides, rounds))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(measure(quick=asked.quick)), indent=1))


if __name__ == "__main__":
    main()
