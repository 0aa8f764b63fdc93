from __future__ import annotations

import os
from contextlib import ExitStack

from treadle.store import Change, SqliteIndex, SqliteStore
from treadle.testing.contracts.drafts import append, user_draft

from ..children import Child

SEARCHERS = 8
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "40"))
ENTRIES = 1_200
"""More than one transaction of the index holds."""

WRITER = """
async def main():
    async with await SqliteStore.open(directory) as store:
        lease = await store.acquire(thread)
        print("ready", flush=True)
        sys.stdin.readline()
        for n in range(int(sys.argv[3])):
            texts = (f"needle number{n}", f"an answer about something{n}")
            await store.commit(lease, Change(entries=tuple(map(user_draft, texts))))
        await lease.release()
    print("written")

asyncio.run(main())
"""

SEARCHER = """
from treadle.store.contract import Search

async def main():
    rounds = int(sys.argv[3])
    async with await SqliteStore.open(directory) as store:
        index = SqliteIndex(store, directory)
        print("ready", flush=True)
        sys.stdin.readline()
        seen = 0
        while seen < rounds:
            hits = await index.search(Search("needle", threads=(thread,), limit=1_000))
            assert len(hits) >= seen, (len(hits), seen)
            seen = len(hits)
            await index.search(Search("number5", mode="substring"))
            await index.search(Search("some.hing5", mode="regex"))
        await index.close()
    print("found", seen)

asyncio.run(main())
"""


async def test_eight_processes_search_while_one_writes(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child(script, tmp_path, thread, ROUNDS))
            for script in (WRITER, *[SEARCHER] * SEARCHERS)
        ]
        assert {child.line() for child in children} == {"ready"}
        for child in children:
            child.say()
        said = [child.result() for child in children]
    assert said == ["written\n", *[f"found {ROUNDS}\n"] * SEARCHERS]
    assert sorted(path.name for path in tmp_path.glob("index.db.*")) == []


async def test_processes_that_index_the_same_at_once_keep_it_once(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        entries = tuple(user_draft(f"needle number{n}") for n in range(ENTRIES))
        await append(store, thread, Change(entries=entries))
        with ExitStack() as stack:
            children = [
                stack.enter_context(Child(INDEXER, tmp_path, thread)) for _ in range(SEARCHERS)
            ]
            assert {child.result() for child in children} == {f"{ENTRIES}\n"}
        index = SqliteIndex(store, tmp_path)
        assert len(await index.search("needle", limit=5_000)) == ENTRIES
        await index.close()


INDEXER = """
async def main():
    async with await SqliteStore.open(directory) as store:
        index = SqliteIndex(store, directory)
        await index.catch_up()
        print(len(await index.search("needle", limit=5_000)))
        await index.close()

asyncio.run(main())
"""
