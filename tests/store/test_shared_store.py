from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.harness.scenes import hear, last, open_thread, scripted
from tests.store.children import Child
from treadle.core.errors import StoreClosed, StoreCorrupt, ThreadBusy
from treadle.store import SqliteStore
from treadle.store.shared_store import open_shared
from treadle.testing.script import Answer

FOREIGN = """
from treadle.store.shared_store import open_shared

if os.getuid() == 0:
    os.chown(directory, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)

async def main():
    async with open_shared(directory):
        pass
    directory.chmod(0o500)
    async with open_shared(directory) as first:
        print(first.store.read_only)
        directory.chmod(0o700)
        async with open_shared(directory) as second:
            print(second.store.read_only)
        print(first.store.read_only)

asyncio.run(main())
"""


async def test_all_who_are_at_home_in_a_directory_share_its_store_and_its_index(tmp_path: Path):
    async with open_shared(tmp_path) as first, open_shared(tmp_path) as second:
        assert first is second
        async with open_shared(tmp_path / "elsewhere") as other:
            assert other.store is not first.store


async def test_who_comes_together_opens_it_once(tmp_path: Path):
    async with AsyncExitStack() as stack:
        entered = [stack.enter_async_context(open_shared(tmp_path)) for _ in range(8)]
        kept = await asyncio.gather(*entered)
        assert len({id(each.store) for each in kept}) == 1


async def test_only_the_last_to_leave_closes_it(tmp_path: Path):
    async with open_shared(tmp_path) as kept:
        async with open_shared(tmp_path):
            pass
        made = await kept.store.create()
        assert (await kept.store.info(made.id)).id == made.id
    with pytest.raises(StoreClosed):
        await kept.store.create()


async def test_what_is_not_indexed_is_looked_for_while_it_is_open(tmp_path: Path):
    def looking() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if "indexing" in task.get_name()]

    async with open_shared(tmp_path), open_shared(tmp_path):
        assert looking() == ["treadle-indexing"]
    assert looking() == []


async def test_a_relative_name_is_that_of_the_place_it_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    async with open_shared(Path("home")) as first:
        monkeypatch.chdir(tmp_path / "two")
        async with open_shared(Path("home")) as second:
            assert isinstance(second.store, SqliteStore)
            assert second.store.directory == tmp_path / "two" / "home"
        assert isinstance(first.store, SqliteStore)
        assert first.store.directory == tmp_path / "one" / "home"


async def test_one_that_cannot_be_opened_is_tried_again_by_the_next(tmp_path: Path):
    (tmp_path / "log.db").write_bytes(b"no database at all, and long enough to be none" * 40)
    with pytest.raises(StoreCorrupt):
        async with open_shared(tmp_path):
            pass
    (tmp_path / "log.db").unlink()
    async with open_shared(tmp_path) as kept:
        assert await kept.store.threads() == []


async def test_one_that_cannot_be_written_is_shared_with_nobody_who_comes_later():
    # pytest's own directories are closed to other users.
    directory = Path(tempfile.mkdtemp())
    try:
        with Child(FOREIGN, directory, "none") as child:
            assert child.result().split() == ["True", "False", "True"]
    finally:
        shutil.rmtree(directory)


async def test_many_threads_of_one_home_take_their_turns_at_once(tmp_path: Path):
    async with AsyncExitStack() as stack:
        threads = [
            await stack.enter_async_context(
                open_thread(tmp_path, scripted(Answer(text=f"answer {number}")), engine="lossless")
            )
            for number in range(40)
        ]
        assert len({id(thread.store) for thread in threads}) == 1
        heard = await asyncio.gather(*(hear(thread, "hello") for thread in threads))
    assert [last(events).text for events in heard] == [f"answer {n}" for n in range(40)]


async def test_a_thread_is_still_written_by_one_only(tmp_path: Path):
    async with open_thread(tmp_path, scripted(Answer(text="hi"))) as thread:
        with pytest.raises(ThreadBusy):
            async with open_thread(tmp_path, scripted(Answer(text="no")), thread=thread.id):
                pass
