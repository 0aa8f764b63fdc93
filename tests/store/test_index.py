from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.errors import StoreClosed
from treadle.core.usage import TokenUsage
from treadle.store import Change, MemoryIndex, MemoryStore, SqliteIndex, SqliteStore
from treadle.store.contract import LedgerRow, Segment
from treadle.store.index_tables import ensure_thread_number, save_request, save_usage
from treadle.store.postgres import PostgresIndex, PostgresStore
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


class TestPostgresIndex(IndexContract):
    @pytest.fixture
    async def store(self, postgres_url):
        async with await PostgresStore.open(postgres_url) as store:
            yield store

    @pytest.fixture
    async def index(self, store, tmp_path):
        index = PostgresIndex(store, tmp_path)
        yield index
        await index.close()


async def test_a_row_that_is_being_written_to_a_database_is_waited_for(postgres_url, tmp_path):
    async with await PostgresStore.open(postgres_url) as store:
        index = PostgresIndex(store, tmp_path)
        assert await index.rows("thr_1") == []
        other = psycopg.connect(postgres_url)
        other.execute("LOCK treadle_index.requests IN EXCLUSIVE MODE")
        await index.record(ledger_row("thr_1", 1, shared=0), [])
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        while not other.execute(waits, ["treadle_index.requests"]).fetchone():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        reading = asyncio.create_task(index.rows("thr_1"))
        await asyncio.wait({reading}, timeout=0.2)
        other.close()
        assert [row.number for row in await reading] == [1]
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
        row = ledger_row("thr_1", 1, shared=0)
        await index.record(row, [])
        await index.close()
        with pytest.raises(StoreClosed):
            await index.rows("thr_1")
        index = SqliteIndex(store, tmp_path)
        assert await index.rows("thr_1") == [row]
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


def test_recording_a_request_does_not_look_through_those_before_it(tmp_path):
    async def make() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            index = SqliteIndex(store, tmp_path)
            await index.newest_row("thr_1")
            await index.close()

    asyncio.run(make())
    work = 0

    def count() -> None:
        nonlocal work
        work += 1

    def record(database: sqlite3.Connection, number: int) -> int:
        nonlocal work
        work = 0
        row = ledger_row("thr_1", number, shared=number - 1)
        thread = ensure_thread_number(database, "thr_1")
        save_request(database, thread, row, [Segment(number - 1, "item", 1, f"digest:{number}")])
        save_usage(database, thread, row.seq, TokenUsage(input_tokens=1))
        return work

    with closing(sqlite3.connect(tmp_path / "index.db")) as database:
        database.set_progress_handler(count, 1)
        costs = [record(database, number) for number in range(1, 400)]
        database.set_progress_handler(None, 1)
        told = database.execute("SELECT sum(input_tokens) FROM requests").fetchone()
    assert told == (399,)
    assert costs[-1] < costs[3] + 20
