from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.answered import OPUS, SOL, Answered
from treadle.config.settings import Price
from treadle.core.entries import (
    CompletionMark,
    Draft,
    Origin,
    ResponseMark,
    Rollback,
    control_draft,
)
from treadle.core.items import encode_item
from treadle.core.usage import TokenUsage
from treadle.log.bills import spent_on
from treadle.log.usages import catch_up_usages, thread_usages
from treadle.models.providers import Api
from treadle.prompt.input import user_message
from treadle.store.contract import ThreadInfo
from treadle.store.counted_usage import RequestUsage
from treadle.store.index import SqliteIndex
from treadle.store.memory import MemoryStore
from treadle.store.sqlite import SqliteStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Script, Tokens
from treadle.thread.thread import Thread

OWN = {"script": Price(input=2.0, cached_input=0.5, output=8.0)}
NOON = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp() * 1000)
SMALL = TokenUsage(input_tokens=1_000_000, output_tokens=0, total_tokens=1_000_000)
ITEM = Draft(body=encode_item(user_message("word " * 400)), turn=1, time=NOON)


def dollars(rows: list[RequestUsage]) -> float:
    return round(sum(spent_on(rows, OWN).bill.amounts.values()), 9)


@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
async def test_an_answer_over_every_api_costs_what_its_usage_says(api: Api, tmp_path: Path):
    used = Tokens(input=1_000, cached=800, output=10)
    model = ScriptedModel(Script(answers=(Answer(text="Done.", usage=used),), api=api))
    async with Thread.open(model=model, cwd=tmp_path, store=MemoryStore()) as thread:
        async for _ in thread.run("go"):
            pass
        (row,) = await thread_usages(thread.store, thread.id)
    await model.close()
    # 200 at $2, 800 at $0.50, 10 at $8
    assert (row.model, row.turn, dollars([row])) == ("script", 1, 0.00088)


async def test_summaries_count_with_their_purpose_and_do_not_change_how_full_the_window_is(
    tmp_path: Path,
):
    answers = [
        Answer(text="long " * 2_000, usage=Tokens(input=1_000, output=2_000)),
        Answer(text="Short.", usage=Tokens(input=500_000, output=100)),
    ]
    model = ScriptedModel(answers)
    async with Thread.open(model=model, cwd=tmp_path, store=MemoryStore()) as thread:
        async for _ in thread.run("go"):
            pass
        await thread.compact()
        assert thread.log.requests.occupied < 100_000
        rows = await thread_usages(thread.store, thread.id)
    await model.close()
    assert [(row.purpose, row.usage and row.usage.input_tokens) for row in rows] == [
        ("", 1_000),
        ("compaction", 500_000),
    ]
    assert {row.model for row in rows} == {"script"}


async def test_each_answer_counts_for_the_model_that_gave_it(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = await Answered.begin(store)
        await thread.use(SOL, NOON)
        await thread.answer(SMALL, NOON)
        before = thread.seq
        await thread.use(OPUS, NOON)
        await thread.answer(SMALL, NOON)
        await thread.control(Rollback(cut=before + 1), NOON)
        await thread.answer(SMALL, NOON)
        rows = await thread_usages(store, thread.thread)
    # A million tokens are a long prompt for OpenAI; what was rolled back was paid all the same.
    assert [(row.provider, dollars([row])) for row in rows] == [
        ("openai", 4.0),
        ("anthropic", 4.0),
        ("openai", 4.0),
    ]


async def test_a_fork_counts_what_it_asked_by_itself(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        first = await Answered.begin(store)
        await first.use(SOL, NOON)
        await first.answer(SMALL, NOON)
        fork = await store.fork(first.thread, first.seq)
        second = Answered(store, fork.id, await store.acquire(fork.id))
        await second.answer(SMALL, NOON)
        rows = await thread_usages(store, fork.id)
        assert [(row.thread, row.model) for row in rows] == [(fork.id, "gpt-6.1-sol")]
        assert len(await thread_usages(store, first.thread)) == 1


async def test_what_ended_without_a_figure_is_not_counted_as_nothing(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = await Answered.begin(store)
        await thread.use(SOL, NOON)
        await thread.answer(None, NOON)
        await thread.answer(None, NOON, status="interrupted")
        await thread.answer(None, NOON, status="failed", error="refused")
        await thread.ask(NOON)  # a process died
        note = CompletionMark(upto=1, epoch=1, digest="b2:0", size=1, items=1, purpose="compaction")
        await thread.control(note, NOON)
        await thread.answer(SMALL, NOON)
        rows = await thread_usages(store, thread.thread)
    assert [row.purpose for row in rows if row.usage is None] == ["", "", "", "compaction"]
    assert str(spent_on(rows).bill) == "at least $4.00"


async def test_counting_again_reads_only_what_is_new(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        threads = [await Answered.begin(store) for _ in range(12)]
        for thread in threads:
            await thread.use(SOL, NOON)
            await thread.write(*[ITEM] * 300)
            await thread.answer(SMALL, NOON)

        async def infos() -> list[ThreadInfo]:
            return await store.threads()

        # An epoch, a request and a response of each; 3,600 items are not looked at.
        assert await catch_up_usages(store, index, await infos()) == 36
        assert await catch_up_usages(store, index, await infos()) == 0
        await threads[3].write(replace(ITEM, time=NOON + 60_000))
        await threads[3].answer(SMALL, NOON + 60_000)
        assert await catch_up_usages(store, index, await infos()) == 2
        assert len(await index.usages()) == 13
        (newest,) = await index.usages(since=NOON + 1)
        assert (newest.thread, newest.model) == (threads[3].thread, "gpt-6.1-sol")
        assert newest in await thread_usages(store, threads[3].thread)
        await index.forget(threads[3].thread)
        assert len(await index.usages()) == 11
        assert await catch_up_usages(store, index, await infos()) == 5
        assert len(await index.usages()) == 13
        await index.close()


async def test_a_request_under_way_is_told_when_its_end_is_known(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        thread = await Answered.begin(store)
        await thread.use(SOL, NOON)
        await thread.ask(NOON)
        await catch_up_usages(store, index, await store.threads())
        assert await index.usages() == []
        await thread.answer(SMALL, NOON)
        await catch_up_usages(store, index, await store.threads())
        assert [row.usage for row in await index.usages()] == [None, SMALL]
        await index.close()


VECTORS = ("vectors", "vector_progress")


@pytest.mark.parametrize(
    ("version", "lacking"), [(2, ("usages", "counted", *VECTORS)), (3, VECTORS)]
)
async def test_an_index_of_a_version_before_keeps_its_ledger(tmp_path: Path, version, lacking):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        async with Thread.open(
            model="openai:gpt-5.5", cwd=tmp_path, store=store, index=index
        ) as thread:
            await thread.log.turns.admit("go")
            await thread.log.requests.record(thread.request())
        rows = await index.rows(thread.id)
        await index.close()
        with closing(sqlite3.connect(tmp_path / "index.db")) as old:
            for table in lacking:
                old.execute(f"DROP TABLE {table}")
            old.execute(f"PRAGMA user_version = {version}")
            old.commit()
        index = SqliteIndex(store, tmp_path)
        assert await index.rows(thread.id) == rows != []
        assert await index.usages() == []
        await index.close()
    assert not list(tmp_path.glob("index.db.broken*"))


async def test_a_summary_that_another_model_wrote_counts_for_that_model(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = await Answered.begin(store)
        await thread.use(replace(SOL, service_tier="priority"), NOON)
        await thread.answer(SMALL, NOON)
        mark = ResponseMark(0, "completed", usage=SMALL, purpose="compaction")
        origin = Origin("anthropic", "messages", "claude-opus-5-5")
        await thread.write(replace(control_draft(mark, turn=1), origin=origin, time=NOON))
        rows = await thread_usages(store, thread.thread)
    # A million tokens: at $4 for a long prompt, twice as much with priority; and at $4.
    assert [(row.model, row.service_tier, dollars([row])) for row in rows] == [
        ("gpt-6.1-sol", "priority", 8.0),
        ("claude-opus-5-5", None, 4.0),
    ]
