from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import ExitStack, closing

import pytest
from msgspec import Raw

from treadle.core.errors import LeaseLost, StoreBusy, ThreadBusy
from treadle.store import Change, SqliteStore
from treadle.store.contract import InboxDraft
from treadle.testing.contracts.drafts import append, user_body, user_draft

from .children import Child

HOLD = """
async def main():
    async with await SqliteStore.open(directory) as store:
        lease = await store.acquire(thread)
        await store.commit(lease, Change(entries=(user_draft("from the child"),)))
        print(os.getpid(), flush=True)
        sys.stdin.readline()
asyncio.run(main())
"""

READ = """
async def main():
    async with await SqliteStore.open(directory) as store:
        print("ready", flush=True)
        seen = 0
        while seen < int(sys.argv[3]):
            entries = await store.read(thread)
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            assert all(entry.body == user_body(f"{entry.seq}") for entry in entries)
            assert len(entries) >= seen
            seen = len(entries)
        print(seen)
asyncio.run(main())
"""

WRITE_OWN = """
async def main():
    async with await SqliteStore.open(directory) as store:
        own = (await store.create(title=thread)).id
        await append(store, own, *(Change(entries=(user_draft(f"{n}"),)) for n in range(30)))
        print(own)
asyncio.run(main())
"""


async def test_two_processes_cannot_write_one_thread(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        with Child(HOLD, tmp_path, thread) as child:
            pid = child.line()
            with pytest.raises(ThreadBusy, match=f"process {pid} on "):
                await store.acquire(thread)
            with pytest.raises(ThreadBusy):
                await store.delete(thread)
            child.kill()
            await append(store, thread, Change(entries=(user_draft("next"),)))
        assert [entry.body for entry in await store.read(thread)] == [
            user_body("from the child"),
            user_body("next"),
        ]


async def test_work_of_a_killed_holder_is_found_and_that_of_a_living_one_is_not(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        await store.post(thread, InboxDraft(key="k", kind="input", body=Raw(b"1")))
        with Child(HOLD, tmp_path, thread) as child:
            child.line()
            assert await store.waiting(limit=9) == []
            child.kill()
            assert [work.thread for work in await store.waiting(limit=9)] == [thread]


async def test_a_lease_ends_with_its_store(tmp_path):
    store = await SqliteStore.open(tmp_path)
    thread = (await store.create()).id
    await store.acquire(thread)
    async with await SqliteStore.open(tmp_path) as other:
        with pytest.raises(ThreadBusy):
            await other.acquire(thread)
        await store.close()
        lease = await other.acquire(thread)
        await lease.release()


async def test_a_writer_that_lost_its_lock_is_stopped_by_the_fence(tmp_path):
    async with (
        await SqliteStore.open(tmp_path) as store,
        await SqliteStore.open(tmp_path) as other,
    ):
        thread = (await store.create()).id
        stale = await store.acquire(thread)
        (tmp_path / "locks" / f"{thread}.lock").unlink()
        lease = await other.acquire(thread)
        with pytest.raises(LeaseLost):
            await store.commit(stale, Change(entries=(user_draft("late"),)))
        await other.commit(lease, Change(entries=(user_draft("mine"),)))
        await stale.release()
        await other.commit(lease, Change(entries=(user_draft("still mine"),)))
        assert len(await store.read(thread)) == 2


async def test_an_acquire_that_is_cancelled_leaves_the_thread_free(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        for spins in range(100):
            task = asyncio.create_task(store.acquire(thread))
            for _ in range(spins):
                await asyncio.sleep(0)
            task.cancel()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            if not isinstance(outcome, BaseException):
                await outcome.release()
            lease = await store.acquire(thread)
            await lease.release()


async def test_readers_in_other_processes_see_whole_prefixes_while_one_writes(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        with Child(READ, tmp_path, thread, 150) as one, Child(READ, tmp_path, thread, 150) as two:
            assert (one.line(), two.line()) == ("ready", "ready")
            changes = (Change(entries=(user_draft(f"{n}"),)) for n in range(1, 151))
            await append(store, thread, *changes)
            assert (await asyncio.to_thread(one.result)).strip() == "150"
            assert (await asyncio.to_thread(two.result)).strip() == "150"


async def test_processes_make_and_write_one_new_store_at_once(tmp_path):
    home = tmp_path / "home"
    with ExitStack() as running:
        children = [running.enter_context(Child(WRITE_OWN, home, f"{n}")) for n in range(4)]
        threads = [(await asyncio.to_thread(child.result)).strip() for child in children]
    async with await SqliteStore.open(home) as store:
        for thread in threads:
            bodies = [entry.body for entry in await store.read(thread)]
            assert bodies == [user_body(f"{n}") for n in range(30)]


async def test_a_new_store_is_opened_many_times_at_once(tmp_path):
    for round_ in range(4):
        home = tmp_path / f"{round_}"
        stores = await asyncio.gather(*(SqliteStore.open(home) for _ in range(8)))
        threads = {(await store.create()).id for store in stores}
        assert {info.id for info in await stores[0].threads()} == threads
        await asyncio.gather(*(store.close() for store in stores))


def test_one_store_serves_several_event_loops(tmp_path):
    store = asyncio.run(SqliteStore.open(tmp_path))
    found: dict[int, int] = {}

    async def work(worker: int) -> None:
        thread = (await store.create()).id
        await append(store, thread, *(Change(entries=(user_draft(f"{n}"),)) for n in range(40)))
        found[worker] = len(await store.read(thread))

    workers = [threading.Thread(target=asyncio.run, args=(work(n),)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    asyncio.run(store.close())
    assert found == dict.fromkeys(range(6), 40)


async def test_many_threads_are_written_at_once_through_one_store(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:

        async def work(name: int) -> list[bytes]:
            thread = (await store.create(title=f"{name}")).id
            changes = (Change(entries=(user_draft(f"{name} {n}"),)) for n in range(20))
            await append(store, thread, *changes)
            return [entry.body for entry in await store.read(thread)]

        logs = await asyncio.gather(*map(work, range(50)))
        assert logs == [[user_body(f"{name} {n}") for n in range(20)] for name in range(50)]


async def test_a_database_that_stays_locked_is_busy_and_then_usable_again(tmp_path):
    async with await SqliteStore.open(tmp_path, busy_seconds=0.05) as store:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as hog:
            hog.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy, match="locked"):
                await store.commit(lease, Change(entries=(user_draft("blocked"),)))
            assert await store.read(thread) == []
            hog.execute("ROLLBACK")
        await store.commit(lease, Change(entries=(user_draft("free"),)))
        assert [entry.body for entry in await store.read(thread)] == [user_body("free")]
