from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engines.sample_engines import MinimalEngine
from treadle import Thread
from treadle.core.errors import NotFound, ThreadBusy
from treadle.engines.loading import EngineRegistry
from treadle.engines.values import ResetParams
from treadle.store.contract import Store
from treadle.store.index import SqliteIndex
from treadle.store.sqlite import SqliteStore
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel
from treadle.thread.deletion import delete_thread


class Told(NamedTuple):
    thread: str
    reason: str
    first: int
    last: int


class Listening(MinimalEngine):
    """An engine of somebody else's that wants to forget."""

    def __init__(self, told: list[Told], *, fails: bool = False) -> None:
        super().__init__()
        self.told, self.fails = told, fails

    async def thread_reset(self, given: ResetParams, /) -> None:
        if self.fails:
            raise RuntimeError("no room for that")
        self.told.append(Told(given.thread.id, given.reason, given.first, given.last))


async def speak(home: Path, thread: str | None = None) -> str:
    model = ScriptedModel([Answer(text="Hello.")])
    async with Thread.open(thread, model=model, home=home, cwd=home) as opened:
        _ = [event async for event in opened.run("Hi!")]
    await model.close()
    return opened.id


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[tuple[Store, SqliteIndex]]:
    async with await SqliteStore.open(home) as store:
        index = SqliteIndex(store, home)
        yield store, index
        await index.close()


async def test_every_engine_hears_of_a_deletion(tmp_path: Path):
    told: list[Told] = []
    registry = EngineRegistry()
    registry.register("first", lambda _: Listening(told))
    registry.register("second", lambda _: Listening(told))
    name = await speak(tmp_path)
    async with opened(tmp_path) as (store, index):
        last = (await store.info(name)).last
        left = await delete_thread(name, store, index, home=tmp_path, engines=registry)
        with pytest.raises(NotFound):
            await store.info(name)
    assert (told, left) == ([Told(name, "delete", 1, last)] * 2, [])


async def test_what_a_fork_shares_is_not_told_as_deleted(tmp_path: Path):
    told: list[Told] = []
    registry = EngineRegistry()
    registry.register("first", lambda _: Listening(told))
    name = await speak(tmp_path)
    async with opened(tmp_path) as (store, index):
        shared = (await store.info(name)).last
        fork = (await store.fork(name, shared)).id
    await speak(tmp_path, name)
    async with opened(tmp_path) as (store, index):
        last = (await store.info(name)).last
        await delete_thread(name, store, index, home=tmp_path, engines=registry)
        await delete_thread(fork, store, index, home=tmp_path, engines=registry)
    assert told == [
        Told(name, "delete", shared + 1, last),
        Told(fork, "delete", shared + 1, shared),
    ]


async def test_an_engine_that_fails_keeps_no_thread_alive(tmp_path: Path):
    registry = EngineRegistry()
    registry.register("moody", lambda _: Listening([], fails=True))
    name = await speak(tmp_path)
    async with opened(tmp_path) as (store, index):
        (left,) = await delete_thread(name, store, index, home=tmp_path, engines=registry)
        assert await store.threads() == []
    assert "no room for that" in left


async def test_a_thread_that_somebody_writes_is_not_touched(tmp_path: Path):
    told: list[Told] = []
    registry = EngineRegistry()
    registry.register("first", lambda _: Listening(told))
    name = await speak(tmp_path)
    async with opened(tmp_path) as (store, index):
        lease = await store.acquire(name)
        with pytest.raises(ThreadBusy):
            await delete_thread(name, store, index, home=tmp_path, engines=registry)
        await lease.release()
        assert [info.id for info in await store.threads()] == [name]
    assert told == []
