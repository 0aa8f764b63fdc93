from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.engines.scenes import (
    Batching,
    Booting,
    Committing,
    Following,
    Forgetting,
    Probe,
    actions,
    describe_item,
    notices,
    past,
)
from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle.engines.advance import AT_ONCE
from treadle.engines.loading import EngineRegistry
from treadle.engines.values import CommitParams, CommitResult
from treadle.testing.script import Answer, ScriptedError
from treadle.tools.decorator import tool

BROKEN = Answer(error=ScriptedError(status=400, code="invalid_request", message="no"))


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


def answers(*texts: str) -> Any:
    """A model that says these things."""
    return scripted(*(Answer(text=text) for text in texts))


def commits(engine: Probe) -> list[list[str]]:
    """What was committed, turn by turn."""
    return [[describe_item(item) for item in given.items] for given in engine.given("commit_turn")]


def down(engine: Probe) -> EngineRegistry:
    """A registry that finds the engine only while its answers say nothing of `found`."""

    def factory(_: object) -> Probe:
        if "found" in engine.answers:
            raise ConnectionError("down")
        return engine

    engine.answers["found"] = False
    engines = EngineRegistry()
    engines.register("memory", factory)
    return engines


async def test_a_turn_is_committed_with_its_key_its_range_and_its_items(tmp_path):
    engine = Committing()
    model = scripted(Answer(calls=(call("look"),)), Answer(text="Dry."))
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, model, thread=thread, tools=(look,), engine=engine) as again:
        await hear(again, "and now?", turn_id="turn_now")
        entries = {entry.seq: entry for entry in await again.store.read(thread)}
        end = again.view.upto
    (given,) = engine.given("commit_turn")
    assert (given.key, given.turn, given.number) == (f"{thread}/2", "turn_now", 2)
    assert [describe_item(item) for item in given.items] == [
        "and now?",
        "call look",
        "output seen",
        "Dry.",
    ]
    assert [entries[item.seq].body for item in given.items] == [item.body for item in given.items]
    assert (given.first, given.last) == (given.items[0].seq, end)
    assert given.outcomes == ("accepted",) * 4
    assert given.persist == (True,) * 4
    assert {len(given.provenance), len(given.internal_events)} == {4}


class All(Committing, Following, Batching):
    """Has every way of being told."""


class Two(Following, Batching):
    """Has two of them."""


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (All, "commit_turn"),
        (Two, "after_turn"),
        (Batching, "ingest_batch"),
        (Probe, "ingest"),
    ],
)
async def test_the_best_way_of_being_told_is_taken(tmp_path, kind, way):
    engine = kind()
    async with open_thread(tmp_path, answers("a"), engine=engine) as thread:
        await hear(thread, "first")
        await thread.log.done.settle()
        assert await thread.store.outbox(thread=thread.id) == []
    ways = {"commit_turn", "after_turn", "ingest_batch", "ingest"}
    assert ways.intersection(engine.calls) == {way}


async def test_who_follows_turns_sees_the_conversation_and_where_the_turn_began(tmp_path):
    engine = Following()
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
        assert any(row.contextual for row in thread.view.rows)
    (_, given) = engine.given("after_turn")
    assert [describe_item(item) for item in given.items] == ["first", "a", "second", "b"]
    assert given.pre_prompt_count == engine.given("assemble")[1].pre_prompt_count == 2
    assert given.outcomes == ("accepted",) * 4
    assert given.token_budget > 0


async def test_who_ingests_gets_the_new_items_only(tmp_path):
    batches, single = Batching(), Probe()
    for engine in (batches, single):
        async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
            await hear(thread, "first")
            await hear(thread, "second")
    assert [
        [describe_item(item) for item in given.items] for given in batches.given("ingest_batch")
    ] == [
        ["first", "a"],
        ["second", "b"],
    ]
    assert [describe_item(given.item) for given in single.given("ingest")] == [
        "first",
        "a",
        "second",
        "b",
    ]


async def test_a_failed_turn_travels_marked_with_the_next_accepted_one(tmp_path):
    engine = Committing()
    model = scripted(Answer(text="a"), BROKEN, BROKEN, Answer(text="b"), Answer(text="c"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        for text in ("first", "second", "third", "fourth", "fifth"):
            await hear(thread, text)
    assert commits(engine) == [["first", "a"], ["second", "third", "fourth", "b"], ["fifth", "c"]]
    given = engine.given("commit_turn")[1]
    assert given.outcomes == ("failed", "failed", "accepted", "accepted")
    assert given.key == f"{thread.id}/4"
    assert given.first == given.items[2].seq


async def test_an_interrupted_turn_travels_marked_with_the_next_accepted_one(tmp_path):
    @tool
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return ""

    def interrupts(event):
        if type(event).__name__ == "ToolStarted":
            thread.interrupt()

    engine = Batching()
    model = scripted(Answer(calls=(call("wait"),)), Answer(text="b"))
    async with open_thread(tmp_path, model, tools=(wait,), engine=engine) as thread:
        await hear(thread, "first", at=interrupts)
        assert engine.given("ingest_batch") == []
        await hear(thread, "second")
    (given,) = engine.given("ingest_batch")
    told = [describe_item(item).split("\n")[0][:9] for item in given.items]
    assert told == ["first", "call wait", "output ab", "second", "b"]
    assert given.outcomes == ("aborted", "aborted", "aborted", "accepted", "accepted")


async def test_a_turn_whose_process_died_travels_marked_and_advances_nothing(tmp_path):
    engine = Committing()
    async with open_thread(tmp_path, answers(), engine=engine) as thread:
        await thread.log.turns.admit("lost")
        await thread.log.done.settle()
        (row,) = await thread.store.outbox(thread=thread.id)
        assert row.state == "admitted"
    async with open_thread(tmp_path, answers("b"), thread=thread.id, engine=engine) as again:
        await hear(again, "second")
        await again.log.done.settle()
        assert await again.store.outbox(thread=thread.id) == []
    (given,) = engine.given("commit_turn")
    assert [describe_item(item) for item in given.items] == ["lost", "second", "b"]
    assert given.outcomes == ("aborted", "accepted", "accepted")


async def test_a_hand_over_that_fails_is_repeated_in_order_with_the_same_names(tmp_path):
    engine = Committing(commit_turn=OSError("locked"))
    async with open_thread(tmp_path, answers("a", "b", "c"), engine=engine) as thread:
        first = await hear(thread, "first")
        await hear(thread, "second")
        tried = engine.given("commit_turn")[0]
        await thread.log.done.settle()
        rows = await thread.store.outbox(thread=thread.id)
        assert [(row.state, row.attempts, row.error) for row in rows] == [
            ("ready", 2, "OSError: locked"),
            ("accepted", 0, None),
        ]
        del engine.answers["commit_turn"]
        engine.asked.clear()
        await hear(thread, "third")
        await thread.log.done.settle()
        assert await thread.store.outbox(thread=thread.id) == []
    assert "finalise.failed" in actions(first)
    assert commits(engine) == [["first", "a"], ["second", "b"], ["third", "c"]]
    again = engine.given("commit_turn")[0]
    assert (again.key, again.items, again.first, again.last) == (
        tried.key,
        tried.items,
        tried.first,
        tried.last,
    )


async def test_a_commit_whose_answer_was_lost_is_a_duplicate_the_next_time(tmp_path):
    results = []

    class Lossy(Committing):
        async def commit_turn(self, given: CommitParams, /) -> CommitResult:
            result = await super().commit_turn(given)
            results.append((given.number, result.status))
            if len(results) == 1:
                raise ConnectionError("the answer was lost")
            return result

    async with open_thread(tmp_path, answers("a", "b"), engine=Lossy()) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
    assert results == [(1, "committed"), (1, "duplicate"), (2, "committed")]


async def test_what_waits_is_handed_over_before_catching_up_when_a_thread_is_opened(tmp_path):
    class Whole(Booting, Committing):
        pass

    engine = Whole(commit_turn=OSError("locked"))
    async with open_thread(tmp_path, answers("a"), engine=engine) as thread:
        await hear(thread, "first")
    engine = Whole()
    async with open_thread(tmp_path, answers("b"), thread=thread.id, engine=engine) as again:
        await hear(again, "second")
    assert engine.calls == ["commit_turn", "bootstrap", "assemble", "commit_turn"]
    assert commits(engine) == [["first", "a"], ["second", "b"]]


async def test_no_more_than_sixteen_turns_are_handed_over_at_once(tmp_path):
    engine = Committing()
    engines = down(engine)
    many = AT_ONCE + 2
    model = answers(*(f"a{number}" for number in range(many + 2)))
    async with open_thread(tmp_path, model, engine="memory", engines=engines) as thread:
        for number in range(many):
            await hear(thread, f"q{number}")
        del engine.answers["found"]
        first = await hear(thread, "and now?")
        assert len(engine.given("commit_turn")) == AT_ONCE
        assert engine.given("assemble") == []
        second = await hear(thread, "and then?")
        await thread.log.done.settle()
        assert await thread.store.outbox(thread=thread.id) == []
    assert "2 turns still wait for it" in notices(first)[0]
    assert notices(second) == []
    assert [given.number for given in engine.given("commit_turn")] == list(range(1, many + 3))


async def test_a_range_that_cannot_be_read_is_put_aside_and_told_and_the_rest_goes_on(tmp_path):
    engine = Committing()
    engines = down(engine)
    async with open_thread(tmp_path, answers("a"), engine="memory", engines=engines) as thread:
        await hear(thread, "first")
        await thread.reset()
    await asyncio.to_thread(spoil, tmp_path / "home" / "log.db", "first")
    del engine.answers["found"]
    model = answers("b")
    async with open_thread(
        tmp_path, model, thread=thread.id, engine="memory", engines=engines
    ) as again:
        heard = await hear(again, "second")
        await again.log.done.settle()
        rows = await again.store.outbox(thread=thread.id)
    assert last(heard).text == "b"
    assert any("cannot be told of a turn" in text for text in notices(heard))
    assert commits(engine) == [["second", "b"]]
    assert [row.state for row in rows] == ["blocked"]


def spoil(log: Path, text: str) -> None:
    """Damage the entry that says `text`."""
    with closing(sqlite3.connect(log)) as database, database:
        done = database.execute(
            "update entries set body = cast(? as blob) where instr(body, cast(? as blob)) > 0",
            (b"\xff\xfe", f'"text":"{text}"'.encode()),
        )
        assert done.rowcount > 0


class Remembering(Committing, Forgetting):
    """Is told of turns, and of what was hidden."""


async def test_a_rollback_reaches_the_engine_in_order_before_it_is_asked_again(tmp_path):
    engine = Remembering()
    async with open_thread(tmp_path, answers("a", "b", "c"), engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
        hidden = engine.given("commit_turn")[1]
        await thread.rollback()
        await hear(thread, "third")
    assert engine.calls[-3:] == ["thread_reset", "assemble", "commit_turn"]
    (given,) = engine.given("thread_reset")
    assert given.reason == "rollback"
    assert given.first <= hidden.first
    assert hidden.last <= given.last


async def test_a_reset_reaches_the_engine(tmp_path):
    engine = Remembering()
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        await hear(thread, "first")
        await thread.reset()
        await hear(thread, "second")
    (given,) = engine.given("thread_reset")
    assert (given.reason, given.first) == ("reset", 1)


async def test_a_turn_that_was_hidden_while_it_waited_is_committed_and_then_hidden(tmp_path):
    engine = Remembering(commit_turn=OSError("locked"))
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        await hear(thread, "first")
        await thread.rollback()
        del engine.answers["commit_turn"]
        engine.asked.clear()
        await hear(thread, "second")
    assert engine.calls == ["commit_turn", "thread_reset", "assemble", "commit_turn"]
    assert commits(engine) == [["first", "a"], ["second", "b"]]


async def test_a_forget_that_fails_is_repeated(tmp_path):
    engine = Remembering(thread_reset=OSError("locked"))
    async with open_thread(tmp_path, answers("a", "b", "c"), engine=engine) as thread:
        await hear(thread, "first")
        await thread.rollback()
        heard = await hear(thread, "second")
        del engine.answers["thread_reset"]
        await hear(thread, "third")
        await thread.log.done.settle()
        assert await thread.store.outbox(thread=thread.id) == []
    assert "degraded" in actions(heard)
    assert commits(engine) == [["first", "a"], ["second", "b"], ["third", "c"]]


async def test_the_log_of_a_commit_ends_with_its_turn(tmp_path):
    seen = []

    async def reads(given: CommitParams) -> CommitResult:
        seen.append([describe_item(item) for item in (await given.log.read()).items])
        return CommitResult("committed")

    engine = Committing()
    engines = down(engine)
    engine.answers["commit_turn"] = reads
    async with open_thread(tmp_path, answers("a", "b"), engine="memory", engines=engines) as thread:
        await hear(thread, "first")
        del engine.answers["found"]
        await hear(thread, "second")
    assert seen == [["first", "a"], ["first", "a", "second", "b"]]


async def test_a_fork_advances_the_engine_under_keys_of_its_own(tmp_path):
    engine = Committing()
    async with open_thread(tmp_path, answers("a"), engine=engine) as thread:
        await hear(thread, "first")
        child = await thread.fork()
    async with open_thread(tmp_path, answers("b"), thread=child, engine=engine) as forked:
        await hear(forked, "second")
    assert engine.keys == [f"{thread.id}/1", f"{child}/2"]
    assert commits(engine) == [["first", "a"], ["second", "b"]]


async def test_a_turn_that_is_run_again_under_its_name_advances_nothing_twice(tmp_path):
    engine = Committing()
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        await hear(thread, "first", turn_id="turn_one")
        await hear(thread, "first", turn_id="turn_one")
    assert commits(engine) == [["first", "a"]]
