from __future__ import annotations

import asyncio
from pathlib import Path

from tests.harness.scenes import hear
from treadle.store.index import SqliteIndex
from treadle.store.sqlite import SqliteStore
from treadle.thread.deletion import delete_thread
from treadle.thread.retention import collect_garbage, find_old_threads
from treadle.workspace.copy_retention import collect_copies, stored_bytes
from treadle.workspace.file_history import open_history

from .scenes import command, open_worker, project_of, work


def stored(place: Path) -> int:
    with open_history(place / "home") as history:
        return stored_bytes(history)


async def delete(place: Path, *threads: str) -> None:
    async with await SqliteStore.open(place / "home") as store:
        index = SqliteIndex(store, place / "home")
        for thread in threads:
            assert await delete_thread(thread, store, index, home=place / "home") == []
        await index.close()


async def test_the_copies_of_a_thread_go_with_it(tmp_path):
    (project_of(tmp_path) / "a").write_text("old" * 100)
    first = await work(tmp_path, (command("echo 1 > a"),))
    second = await work(tmp_path, (command("echo 2 > b"),))
    await delete(tmp_path, second)
    async with open_worker(tmp_path, thread=first) as thread:
        assert [each.path for each in (await thread.rewinds.plan()).files.actions] == ["a"]
    await delete(tmp_path, first)
    assert await asyncio.to_thread(stored, tmp_path) == 0


async def test_a_fork_can_go_back_after_its_parent_was_deleted(tmp_path):
    project = project_of(tmp_path)
    (project / "a").write_text("old")
    async with open_worker(tmp_path, (command("echo 1 > a"),), (command("echo 2 > b"),)) as thread:
        await hear(thread, "one")
        fork = await thread.fork()
        await hear(thread, "two")
        parent = thread.id
    await delete(tmp_path, parent)
    async with open_worker(tmp_path, thread=fork) as thread:
        plan = await thread.rewinds.plan()
        assert [each.path for each in plan.files.changes] == ["a"]
        await thread.rewinds.apply(plan)
    assert (project / "a").read_text() == "old"
    assert (project / "b").exists()


async def test_garbage_is_what_no_thread_can_go_back_to(tmp_path):
    (project_of(tmp_path) / "a").write_text("old" * 100)
    thread = await work(tmp_path, (command("echo 1 > a"),), (command("echo 2 > a"),))
    home = tmp_path / "home"
    async with await SqliteStore.open(home) as store:
        assert (await collect_garbage(store, home)).copies.bytes == 0
        await store.delete(thread)
        tried = await collect_garbage(store, home, dry_run=True)
        done = await collect_garbage(store, home)
    assert tried == done
    assert done.copies.copies == 3
    assert await asyncio.to_thread(stored, tmp_path) == 0


async def test_above_the_limit_the_oldest_turns_go_first(tmp_path):
    project = project_of(tmp_path)
    fill = "head -c 20000 /dev/urandom > a"
    async with open_worker(tmp_path, (command(fill),), (command(fill),)) as thread:
        await hear(thread, "one")
        await hear(thread, "two")
        await thread.rewinds.plan()
        everything = {thread.id: 1 << 60}
        now = (project / "a").read_bytes()
        await asyncio.to_thread(collect_copies, tmp_path / "home", everything, most=45_000)
        assert [each.path for each in (await thread.rewinds.plan()).files.actions] == ["a"]
        await asyncio.to_thread(collect_copies, tmp_path / "home", everything, most=10)
        assert (await thread.rewinds.plan(2)).files.actions == ()
        assert (project / "a").read_bytes() == now


async def test_agents_of_threads_that_stay_are_not_old(tmp_path):
    thread = await work(tmp_path, ())
    async with await SqliteStore.open(tmp_path / "home") as store:
        info = await store.info(thread)
        assert await find_old_threads(store, info.updated) == []
        (old,) = await find_old_threads(store, info.updated + 1)
    assert (old.info.id, old.kept) == (thread, "")
