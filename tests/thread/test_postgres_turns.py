"""Turns of threads in PostgreSQL, taken by one machine after the other."""

from __future__ import annotations

from pathlib import Path

from treadle import Routing, Thread
from treadle.store import PostgresStore
from treadle.store.postgres import PostgresIndex
from treadle.store.shared_store import open_shared
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call


async def take_turn(home: Path, address: str, thread: str | None, words: str) -> str:
    """Take a turn on a machine with this home; return the thread."""
    call = Call(name="exec_command", arguments={"cmd": f"echo {words}"})
    model = ScriptedModel([Answer(calls=(call,)), Answer(text=f"said {words}")])
    home.mkdir(exist_ok=True)
    async with Thread.open(
        thread, model=model, home=home, cwd=home.parent, store=address, routing=Routing(environ={})
    ) as opened:
        async for _ in opened.run(words):
            pass
        name = opened.id
    await model.close()
    return name


async def test_the_ledger_goes_on_where_another_machine_left_it(postgres_url, tmp_path):
    thread = None
    for number in range(3):
        home = tmp_path / f"machine{number % 2}"
        thread = await take_turn(home, postgres_url, thread, f"word{number}")
        assert not (home / "log.db").exists()
    assert thread is not None
    async with await PostgresStore.open(postgres_url) as store:
        index = PostgresIndex(store, None)
        rows = await index.rows(thread)
        assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
        # On one machine the prefix of each request is that of the one before, and on several.
        assert [row.reason for row in rows] == ["start", *[None] * 5]
        assert all(row.shared_segments for row in rows[1:])
        totals = await index.totals(thread, after=1)
        assert (totals.requests, totals.breaks) == (5, 0)
        hits = await index.search("word1")
        assert {hit.thread for hit in hits} == {thread}
        await index.close()


async def test_threads_at_one_address_share_a_store(postgres_url, tmp_path):
    async with (
        open_shared(tmp_path, postgres_url) as one,
        open_shared(tmp_path, postgres_url) as other,
        open_shared(tmp_path) as own,
    ):
        assert one.store is other.store
        assert one.index is other.index
        assert own.store is not one.store
        assert isinstance(one.store, PostgresStore)
