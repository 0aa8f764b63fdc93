from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tests.engines.scenes import Intercepting, Probe, describe_item, engine_message, epochs, notices
from tests.harness.codex.scenes import (
    Stage,
    hear,
    last,
    of,
    open_stage,
    request_items,
    roles_and_texts,
    talk,
)
from tests.harness.scenes import calls_answered_once, log
from treadle.core.errors import LeaseLost
from treadle.engines.contract import EngineInfo
from treadle.engines.guard import EngineTimeouts
from treadle.engines.values import CompactParams, CompactResult, InterceptResult, Rebase
from treadle.harness.events import CompactionFinished, Event, HarnessReported
from treadle.testing.script import Answer, Call, ScriptedError
from treadle.tools.decorator import tool

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)
OTHER = EngineInfo(id="other", name="Other")
LONG = "many words " * 500
STREAMED = Answer(error=ScriptedError(code="context_length_exceeded", message="too long"))
REFUSED = Answer(
    error=ScriptedError(status=400, code="context_length_exceeded", message="too long")
)
DOES_NOT_FIT = "the conversation does not fit the model's window"


@tool
async def look() -> str:
    """Looks."""
    return "seen"


LOOKS = Answer(text="I will look.", calls=(Call(name="look"),))


def compacts(given: CompactParams) -> CompactResult:
    """Puts a record in the place of all that is not of the newest turn."""
    newest = given.items[-1].turn
    live = [item for item in given.items if item.turn == newest]
    return CompactResult(compacted=True, rebase=Rebase(items=(engine_message("It rained."), *live)))


def threads_used(heard: list[Event]) -> list[str]:
    """Why Codex threads were started or used again."""
    return [f"{each.what}: {each.reason}" for each in of(heard, HarnessReported)]


def asked(stage: Stage) -> list[tuple[str, str]]:
    """What the newest request shows."""
    return roles_and_texts(request_items(stage.requests[-1]))


@pytest.mark.parametrize("overflow", [STREAMED, REFUSED], ids=["streamed", "refused"])
async def test_an_owner_answers_an_overflow_and_the_turn_goes_on_on_another_thread(
    tmp_path, overflow
):
    engine = Probe(OWNER, compact=compacts)
    answers = (Answer(text=LONG), overflow, Answer(text="b"), Answer(text="c"))
    async with open_stage(tmp_path, *answers) as stage, stage.thread(engine=engine) as thread:
        await talk(thread, "one")
        heard = await hear(thread, "two")
        assert (last(heard).status, last(heard).text) == ("completed", "b")
        assert threads_used(heard) == [
            "thread.reused: per-turn-projection",
            "thread.started: overflow",
        ]
        assert [each.by for each in of(heard, CompactionFinished)] == ["owner"]
        assert asked(stage) == [("user", "It rained."), ("user", "two")]
        await talk(thread, "three")
        assert asked(stage) == [
            ("user", "It rained."),
            ("user", "two"),
            ("assistant", "b"),
            ("user", "three"),
        ]
        assert (await log(thread))[-4:] == [
            "user: two",
            "assistant: b",
            "user: three",
            "assistant: c",
        ]
    (given,) = engine.given("compact")
    assert (given.trigger, given.force, given.live) == ("overflow", True, True)


async def test_an_overflow_of_an_engine_that_owns_nothing_is_its_to_answer_too(tmp_path):
    engine = Probe(OTHER, compact=compacts)
    answers = (Answer(text=LONG), STREAMED, Answer(text="b"))
    async with open_stage(tmp_path, *answers) as stage, stage.thread(engine=engine) as thread:
        await talk(thread, "one")
        assert last(await hear(thread, "two")).text == "b"
    assert asked(stage) == [("user", "It rained."), ("user", "two")]


async def test_without_an_engine_the_runtime_compacts_what_overflowed(tmp_path):
    answers = (Answer(text=LONG), STREAMED, Answer(text="b"))
    async with open_stage(tmp_path, *answers) as stage, stage.thread() as thread:
        await talk(thread, "one")
        heard = await hear(thread, "two")
        assert last(heard).text == "b"
        assert threads_used(heard)[-1] == "thread.started: overflow"
        assert await epochs(thread) == [("compaction", "provider")]
    assert [who for who, _ in asked(stage)] == ["user", "compaction", "user"]


async def test_an_engine_that_writes_summaries_writes_that_of_an_overflow(tmp_path):
    engine = Intercepting(intercept_compaction=InterceptResult(summary="It rained on us."))
    answers = (Answer(text=LONG), STREAMED, Answer(text="b"))
    async with open_stage(tmp_path, *answers) as stage, stage.thread(engine=engine) as thread:
        await talk(thread, "one")
        assert last(await hear(thread, "two")).text == "b"
    one, summary, two = (text for _, text in asked(stage))
    assert (one, two) == ("one", "two")
    assert summary.endswith("\nIt rained on us.")


async def test_what_codex_did_before_the_overflow_is_mirrored_and_stays(tmp_path):
    engine = Probe(OWNER, compact=compacts)
    answers = (Answer(text=LONG), LOOKS, STREAMED, Answer(text="b"))
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(engine=engine, tools=[look]) as thread,
    ):
        await talk(thread, "one")
        assert last(await hear(thread, "two")).text == "b"
        assert await calls_answered_once(thread)
        assert (await log(thread))[2:] == [
            "user: two",
            "assistant: I will look.",
            "call look",
            "output seen",
            "assistant: b",
        ]
    assert asked(stage) == [
        ("user", "It rained."),
        ("user", "two"),
        ("assistant", "I will look."),
        ("function_call", "{}"),
        ("function_call_output", "seen"),
    ]


async def test_a_second_overflow_fails_the_turn_clearly_and_not_the_thread(tmp_path):
    engine = Probe(OWNER, compact=compacts)
    answers = (Answer(text=LONG), STREAMED, STREAMED, Answer(text="c"))
    async with open_stage(tmp_path, *answers) as stage, stage.thread(engine=engine) as thread:
        await talk(thread, "one")
        ended = last(await hear(thread, "two"))
        assert (ended.status, ended.error is not None) == ("failed", True)
        assert DOES_NOT_FIT in str(ended.error)
        assert len(engine.given("compact")) == 1
        heard = await hear(thread, "three")
        assert last(heard).text == "c"
        assert threads_used(heard) == ["thread.started: overflow"]
    assert asked(stage) == [("user", "It rained."), ("user", "two"), ("user", "three")]


async def test_an_overflow_of_the_first_turn_fails_clearly_and_compacts_nothing(tmp_path):
    engine = Probe(OWNER, compact=compacts)
    async with (
        open_stage(tmp_path, STREAMED, Answer(text="b")) as stage,
        stage.thread(engine=engine) as thread,
    ):
        ended = last(await hear(thread, "one"))
        assert ended.status == "failed"
        assert DOES_NOT_FIT in str(ended.error)
        assert len(stage.requests) == 1
        assert "compact" not in engine.calls
        heard = await hear(thread, "two")
        assert last(heard).text == "b"
        assert threads_used(heard) == ["thread.started: overflow"]
    one, note, two = asked(stage)
    assert (one, two) == (("user", "one"), ("user", "two"))
    assert note[1].startswith("<unanswered_input>")


async def test_an_engine_that_hangs_over_an_overflow_is_helped_out(tmp_path):
    async def hangs(_: CompactParams) -> CompactResult:
        await asyncio.Event().wait()
        raise AssertionError

    engine = Probe(OWNER, compact=hangs)
    timeouts = EngineTimeouts(compact=0.1, grace=0.1)
    answers = (Answer(text=LONG), STREAMED, Answer(text="b"))
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(engine=engine, timeouts=timeouts) as thread,
    ):
        await talk(thread, "one")
        heard = await hear(thread, "two")
        assert last(heard).text == "b"
        assert any("the runtime compacts the view" in text for text in notices(heard))
    (given,) = engine.given("compact")
    assert given.cancelled.is_set()


async def test_nobody_compacts_an_owner_s_view_because_it_is_large(tmp_path):
    engine = Probe(OWNER)
    huge = "many words " * 93_000
    async with (
        open_stage(tmp_path, Answer(text="a"), Answer(text="b")) as stage,
        stage.thread(engine=engine) as thread,
    ):
        await talk(thread, huge)
        heard = await hear(thread, "two")
        assert thread.view.tokens > 250_000
    assert last(heard).text == "b"
    assert of(heard, CompactionFinished) == []
    assert "compact" not in engine.calls
    assert asked(stage) == [("user", huge), ("assistant", "a"), ("user", "two")]


async def test_an_overflow_under_a_writer_that_was_replaced_surfaces_and_binds_nothing(tmp_path):
    @tool
    def look() -> str:
        """Looks, while another writer takes the thread."""
        with closing(sqlite3.connect(tmp_path / "treadle" / "log.db")) as database, database:
            database.execute("UPDATE threads SET fence = fence + 1")
        return "seen"

    engine = Probe(OWNER, compact=compacts)
    answers = (Answer(text=LONG), LOOKS, STREAMED, Answer(text="c"))
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(engine=engine, tools=[look]) as thread,
    ):
        await talk(thread, "one")
        before = await thread.store.outbox(thread=thread.id, topic="codex")
        with pytest.raises(LeaseLost):
            await hear(thread, "two")
        after = await thread.store.outbox(thread=thread.id, topic="codex")
        assert [row.number for row in after] == [row.number for row in before]
        assert len(stage.requests) == 3
    assert [describe_item(item) for item in engine.given("assemble")[-1].items] == [
        "one",
        LONG,
        "two",
    ]
