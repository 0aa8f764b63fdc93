from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.errors import StoreClosed
from treadle.store import Change, MemoryIndex, MemoryStore, SqliteIndex, SqliteStore
from treadle.store.contract import Calibration, LedgerRow, Segment
from treadle.testing.contracts import IndexContract
from treadle.testing.contracts.drafts import append, user_draft


class TestSqliteIndex(IndexContract):
    @pytest.fixture
    async def store(self, tmp_path):
        async with await SqliteStore.open(tmp_path) as store:
            yield store

    @pytest.fixture
    async def index(self, store, tmp_path):
        index = SqliteIndex(store, tmp_path)
        yield index
        await index.close()


class TestMemoryIndex(IndexContract):
    @pytest.fixture
    async def store(self):
        return MemoryStore()

    @pytest.fixture
    async def index(self, store):
        index = MemoryIndex(store)
        yield index
        await index.close()


def asides(directory: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in directory.glob("index.db.broken-*"))


def not_a_database(path: Path) -> None:
    path.write_bytes(b"scribbles " * 500)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")


def older(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 0")


def scrambled(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xa5" * (len(data) - 8192))


@pytest.mark.parametrize("damage", [not_a_database, foreign, older, scrambled])
async def test_a_broken_index_is_moved_aside_and_built_again(tmp_path, caplog, damage):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=(user_draft("findable"),)))
        if damage is not foreign:
            index = SqliteIndex(store, tmp_path)
            assert len(await index.search("findable")) == 1
            await index.close()
        damage(tmp_path / "index.db")
        index = SqliteIndex(store, tmp_path)
        assert [hit.seq for hit in await index.search("findable")] == [1]
        assert [hit.seq for hit in await index.search("findable")] == [1]
        await index.close()
    assert asides(tmp_path) == ["index.db.broken"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_an_index_is_opened_at_first_use_and_kept(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        assert not (tmp_path / "index.db").exists()
        await index.calibrate("m", lambda _: Calibration(1.5, 2))
        await index.close()
        with pytest.raises(StoreClosed):
            await index.calibration("m")
        index = SqliteIndex(store, tmp_path)
        assert await index.calibration("m") == Calibration(1.5, 2)
        await index.close()
    assert asides(tmp_path) == []


async def test_long_logs_are_indexed_in_pieces_by_two_at_once(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        entries = tuple(user_draft(f"word{n} common") for n in range(1_200))
        await append(store, thread, Change(entries=entries))
        one, two = SqliteIndex(store, tmp_path), SqliteIndex(store, tmp_path)
        found = await asyncio.gather(
            one.search("word1199", limit=5), two.search("word1199", limit=5)
        )
        assert [[hit.seq for hit in hits] for hits in found] == [[1200], [1200]]
        assert len(await one.search("common", limit=5_000)) == 1_200
        await one.close()
        await two.close()


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=st.text() | st.text('"()*:^-+{}_ abANDORNEAR.'))
async def test_no_question_is_a_syntax_error(words, query):
    assert {hit.seq for hit in await words.search(query)} <= {1}


@pytest.fixture
async def words():
    store = MemoryStore()
    thread = (await store.create()).id
    await append(store, thread, Change(entries=(user_draft("a b AND OR NEAR"),)))
    index = MemoryIndex(store)
    yield index
    await index.close()


def ledger_row(thread: str, number: int, *, shared: int) -> LedgerRow:
    return LedgerRow(
        thread=thread,
        number=number,
        seq=number * 10,
        turn=1,
        step=number,
        time=number,
        epoch=1,
        segments=number + 3,
        size=100,
        digest=f"d{number}",
        shared_segments=shared,
        shared_size=0,
    )


async def test_a_request_whose_predecessor_was_lost_is_not_taken_for_a_whole_one(tmp_path):
    whole = [Segment(at, "item", 1, f"one:{at}") for at in range(4)]
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        first = ledger_row("thr_1", 1, shared=0)
        await index.record(first, whole)
        # The second was to be written while there was no room.
        third = ledger_row("thr_1", 3, shared=5)
        await index.record(third, [Segment(5, "item", 1, "three:5")])
        assert await index.newest_request("thr_1") == (first, whole)
        again = ledger_row("thr_1", 2, shared=4)
        await index.record(again, [Segment(4, "item", 1, "two:4")])
        assert [row.number for row in await index.rows("thr_1")] == [1, 2]
        await index.close()
