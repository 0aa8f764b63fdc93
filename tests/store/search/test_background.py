"""A home that is not indexed yet is indexed in a process of its own, beside who uses it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.store.search.test_searcher import returns
from treadle.core.wire import json_bytes
from treadle.store import Change, SqliteIndex, SqliteStore
from treadle.store.contract import Search
from treadle.store.search.background import IndexingOrder
from treadle.testing.contracts.drafts import append, user_draft

ENTRIES = 2_400
"""More than is left to the next search, and than one transaction holds."""


async def write(store: SqliteStore) -> str:
    thread = (await store.create()).id
    outputs = (returns(f"needle number{n}", "c1") for n in range(ENTRIES - 2))
    said = map(user_draft, ("the kettle is on", "a twisted knee"))
    await append(store, thread, Change(entries=(*said, *outputs)))
    return thread


async def wait_for(index: SqliteIndex, *, all_of_it: bool) -> None:
    async with asyncio.timeout(60):
        while (found := await index.coverage()).with_vectors < found.entries:
            if found.with_words and not all_of_it:
                return
            await asyncio.sleep(0.05)


async def test_an_open_home_is_indexed_beside_who_uses_it(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        await write(store)
        index = SqliteIndex(store, tmp_path)
        index.begin_indexing(tmp_path, after=0)
        await wait_for(index, all_of_it=True)
        assert len(await index.search("needle", limit=5_000, catch_up=False)) == ENTRIES - 2
        await index.close()


class Indexing:
    """A process that indexes a home."""

    def __init__(self, home: Path) -> None:
        program = [sys.executable, "-m", "treadle.store.search.index_home"]
        self.process = subprocess.Popen(program, stdin=subprocess.PIPE)
        assert self.process.stdin is not None
        self.input = self.process.stdin
        self.input.write(json_bytes(IndexingOrder(str(home))) + b"\n")
        self.input.flush()

    def wait(self) -> int:
        code = self.process.wait()
        self.input.close()
        return code


async def test_indexing_that_is_killed_goes_on_where_it_was(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = await write(store)
        index = SqliteIndex(store, tmp_path)
        indexing = await asyncio.to_thread(Indexing, tmp_path)
        await wait_for(index, all_of_it=False)
        indexing.process.kill()
        await asyncio.to_thread(indexing.wait)
        indexing = await asyncio.to_thread(Indexing, tmp_path)
        await wait_for(index, all_of_it=True)
        assert await asyncio.to_thread(indexing.wait) == 0
        asked = Search("needle", threads=(thread,), limit=5_000)
        hits = await index.search(asked, catch_up=False)
        assert sorted(hit.seq for hit in hits) == list(range(3, ENTRIES + 1))
        await index.close()


async def test_indexing_ends_with_its_input(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        for _ in range(6):
            await write(store)
        index = SqliteIndex(store, tmp_path)
        indexing = await asyncio.to_thread(Indexing, tmp_path)
        await wait_for(index, all_of_it=False)
        indexing.input.close()
        assert await asyncio.to_thread(indexing.wait) == 0
        coverage = await index.coverage()
        assert coverage.with_vectors < coverage.entries
        await index.close()
