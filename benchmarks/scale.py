"""What many machines cost: the same thread on SQLite and on PostgreSQL, and several workers.

    python -m benchmarks.scale            # about five minutes
    python -m benchmarks.scale --quick    # the same with small numbers

Everything is measured in one run on one machine. PostgreSQL is reached over a socket of this
machine, and through a proxy that adds half a millisecond each way.
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
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct, structs
from soak.fleet.proxy import Proxy

from treadle import Rights, Thread
from treadle.store import PostgresStore, SqliteStore, Store
from treadle.store.contract import Change
from treadle.testing import ScriptedModel
from treadle.testing.contracts.drafts import user_draft
from treadle.testing.postgres import PostgresServer
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool

ROUNDS = 40
_HALF_A_MILLISECOND = 0.0005
_DURABLE = ("fsync=on", "synchronous_commit=on")


def median_ms(times: list[float]) -> float:
    return round(statistics.median(times) * 1000, 2)


@tool
async def act() -> str:
    """Do nothing, at once."""
    return "done"


async def tool_rounds(store: Store, place: Path, rounds: int) -> dict[str, float]:
    """A turn of many tool rounds, and turns without any: milliseconds each."""
    called = Call(name="act", arguments={})
    answers = [Answer(calls=(called,)) for _ in range(rounds)]
    model = ScriptedModel([*answers, Answer(text="done", times=0)])
    rights = Rights(sandbox="danger-full-access", approval="never")
    async with Thread.open(
        model=model, cwd=place, home=place, store=store, tools=(act,), rights=rights
    ) as thread:
        begin = time.perf_counter()
        async for _ in thread.run("act"):
            pass
        whole = time.perf_counter() - begin
        turns = []
        for number in range(rounds):
            begin = time.perf_counter()
            async for _ in thread.run(f"turn {number}"):
                pass
            turns.append(time.perf_counter() - begin)
    await model.close()
    return {"tool round ms": round(whole / rounds * 1000, 2), "turn ms": median_ms(turns)}


@asynccontextmanager
async def far(server: PostgresServer, database: str) -> AsyncIterator[str]:
    """The address of a database that is a millisecond away."""
    proxy = Proxy(server.port)
    proxy.delay = _HALF_A_MILLISECOND
    await proxy.start()
    yield server.url(database, port=proxy.port)
    await proxy.close()


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


async def commit_cost(store: Store, threads: int, entries: int, samples: int) -> dict[str, float]:
    """Milliseconds of a durable commit, at so many threads and entries."""
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    found: dict[str, float] = {}

    async def measure(title: str) -> None:
        times = []
        for _ in range(samples):
            begin = time.perf_counter()
            await store.commit(lease, Change(entries=(user_draft("x" * 500),)))
            times.append(time.perf_counter() - begin)
        found[title] = median_ms(times)

    await measure("1 thread")
    made = 1
    for most in (100, threads):
        made += await _make(store.create, most - made)
        await measure(f"{most:,} threads")
    page, each = 2_000, entries // 20
    for _ in range(20):
        other = (await store.create()).id
        own = await store.acquire(other)
        for first in range(0, each, page):
            batch = tuple(user_draft(f"entry {first + n}") for n in range(min(page, each - first)))
            await store.commit(own, Change(entries=batch))
        await own.release()
    await measure(f"{entries:,} entries")
    await lease.release()
    return found


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
    near = f"{server.url('near')}?host={server.directory}"
    for name in ("near", "far", "fleet", "takeover", "size"):
        await asyncio.to_thread(server.create, name)
    done = _Told()
    async with await SqliteStore.open(place / "sqlite") as store:
        done["SQLite"] = await tool_rounds(store, place / "sqlite", rounds)
    async with await PostgresStore.open(near) as store:
        done["PostgreSQL"] = await tool_rounds(store, place / "near", rounds)
    async with far(server, "far") as address, await PostgresStore.open(address) as store:
        done["PostgreSQL, 1 ms away"] = await tool_rounds(store, place / "far", rounds)
    fleet = server.url("fleet")
    done["turns per second"] = {
        str(workers): await turns_per_second(fleet, place, workers, turns) for workers in (1, 2, 4)
    }
    takeover = server.url("takeover")
    done["takeover seconds"] = await takeover_seconds(takeover, place, 2 if rounds < ROUNDS else 7)
    samples = 20 if rounds < ROUNDS else 200
    async with await SqliteStore.open(place / "size") as store:
        done["commit ms, SQLite"] = await commit_cost(store, threads, entries, samples)
    async with await PostgresStore.open(server.url("size")) as store:
        done["commit ms, PostgreSQL"] = await commit_cost(store, threads, entries, samples)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(measure(quick=asked.quick)), indent=1))


if __name__ == "__main__":
    main()
