from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from treadle import Thread
from treadle.harness.events import TextDelta, TurnCompleted
from treadle.store import SqliteStore
from treadle.store.index import SqliteIndex
from treadle.testing.script import Answer, Api, Call
from treadle.tools.decorator import tool

from .scenes import call, calls_answered_once, hear, last, open_thread, scripted

THREADS = 200
WORDS = 40
STEPS = 300


async def test_200_threads_stream_at_once_and_none_starves(tmp_path: Path):
    model = scripted(Answer(text="word " * WORDS, pace=0.005), loop=True)
    order: list[int] = []
    everybody = asyncio.Barrier(THREADS)

    async def one(number: int, store: SqliteStore, index: SqliteIndex) -> str:
        async with Thread.open(
            model=model, cwd=tmp_path, home=tmp_path, store=store, index=index, tools=()
        ) as thread:
            await everybody.wait()
            async for event in thread.run("speak"):
                if isinstance(event, TextDelta):
                    order.append(number)
                if isinstance(event, TurnCompleted):
                    return event.status
        return "nothing"

    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        ended = await asyncio.gather(*(one(n, store, index) for n in range(THREADS)))
        await index.close()
    await model.close()
    assert ended == ["completed"] * THREADS
    assert len(order) == THREADS * WORDS
    # From its first word to its last, nobody waits for long while all others go on.
    heard: dict[int, int] = {}
    longest = 0
    for position, number in enumerate(order):
        longest = max(longest, position - heard.get(number, position))
        heard[number] = position
    assert longest <= 10 * THREADS


@tool(parallel=True)
async def read(path: str) -> str:
    """Reads."""
    return f"contents of {path}"


@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
async def test_300_steps_reuse_all_of_each_request_inside_an_epoch(tmp_path: Path, api: Api):
    again = Answer(
        reasoning="what next",
        text="reading",
        calls=(call("read", path="a"), call("read", path="b")),
        times=STEPS - 1,
    )
    model = scripted(again, Answer(text="done"), api=api)
    async with open_thread(tmp_path, model, tools=(read,)) as thread:
        events = await hear(thread, "read on")
        rows = await thread.index.rows(thread.id)
        assert await calls_answered_once(thread)
    assert last(events).status == "completed"
    assert len(model.requests) == len(rows) == STEPS
    assert {row.epoch for row in rows} == {rows[0].epoch}
    # All but the brackets that close a body.
    spare = [before.size - row.shared_size for before, row in pairwise(rows)]
    assert max(spare) <= len(b"]}]}")
    assert [row.difference for row in rows[1:]] == [None] * (STEPS - 1)
    # The server saw it so, too: it had cached what the ledger says was shared.
    cached = [row.cached_tokens or 0 for row in rows[1:]]
    assert all(count >= before.size // 4 - 2 for count, before in zip(cached, rows, strict=False))


async def test_an_epoch_that_ends_inside_a_long_turn_has_its_reason(tmp_path: Path):
    words = "word " * 1_000
    steps = [
        Answer(calls=(Call(name="read", arguments={"path": f"{words}{at}"}),)) for at in range(30)
    ]
    model = scripted(
        Answer(when="Answer with the summary alone", text="a summary", times=0),
        *steps,
        Answer(text="done"),
    )
    async with open_thread(
        tmp_path, model, tools=(read,), facts="auto_compact_token_limit = 16000"
    ) as thread:
        events = await hear(thread, "read on")
        rows = await thread.index.rows(thread.id)
        assert await calls_answered_once(thread)
    assert last(events).status == "completed"
    assert {row.reason for row in rows} == {"start", "compaction", None}
    assert len(rows) == 31
    for before, row in pairwise(rows):
        if row.reason is None:
            assert row.shared_size >= before.size - len(b"]}]}")
        else:
            assert row.epoch > before.epoch
