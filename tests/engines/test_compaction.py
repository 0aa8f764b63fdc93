from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engines.scenes import (
    Intercepting,
    Probe,
    Tidying,
    actions,
    chatter,
    describe_item,
    engine_message,
    epochs,
    notices,
    reports,
    shows,
)
from tests.harness.scenes import call, hear, last, log, of, open_thread, scripted
from treadle.core.errors import CannotCompact, EngineFailed
from treadle.engines.contract import EngineInfo
from treadle.engines.guard import EngineTimeouts
from treadle.engines.values import (
    AssembleResult,
    CompactParams,
    CompactResult,
    InterceptResult,
    MaintainResult,
    Rebase,
)
from treadle.harness.events import CompactionFinished, CompactionStarted
from treadle.prompt.instructions import compaction_prompt
from treadle.testing.script import Answer, ScriptedError, Tokens
from treadle.tools.decorator import tool

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)
TOO_LONG = Answer(
    error=ScriptedError(status=400, code="context_length_exceeded", message="too long")
)
SUMMARY = Answer(when=compaction_prompt()[:40], times=0, text="A summary.")
LONG = "many words " * 2_000
LIMIT = "auto_compact_token_limit = 9000"
FULL = Tokens(input=9_500)


@tool
async def look() -> str:
    """Looks."""
    return "seen"


def compacts(given: CompactParams) -> CompactResult:
    """Puts a record in the place of all that is not of the newest turn."""
    newest = given.items[-1].turn
    live = [item for item in given.items if item.turn == newest] if given.live else given.items[-1:]
    return CompactResult(
        compacted=True,
        rebase=Rebase(items=(engine_message("It rained."), *live)),
        tokens_before=7,
        tokens_after=3,
    )


async def test_by_hand_an_owner_compacts_and_its_view_is_published(tmp_path):
    engine = Probe(OWNER, compact=compacts)
    model = scripted(Answer(text="short"), Answer(text=LONG), Answer(text="b"), Answer(text="c"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        for text in ("first", "second", "third"):
            await hear(thread, text)
        before = thread.view.tokens
        done = await thread.compact()
        assert (done.by, done.tokens_before, done.tokens_after) == (
            "owner",
            before,
            thread.view.tokens,
        )
        assert await epochs(thread) == [("compaction", "owner")]
        await hear(thread, "fourth")
        assert len(await log(thread)) == 8
    (given,) = engine.given("compact")
    assert (given.trigger, given.force, given.live) == ("manual", True, False)
    assert given.current_tokens > 0
    assert given.token_budget > 0
    assert given.context.complete.purpose == "context-engine.compaction"
    assert shows(model.requests[-1]) == ["It rained.", "b", "fourth"]


async def test_by_hand_an_engine_that_delegates_gets_the_runtime_s_compaction(tmp_path):
    results = []

    async def delegates(given: CompactParams) -> CompactResult:
        assert given.delegate is not None
        results.append(await given.delegate())
        return results[0]

    engine = Probe(compact=delegates)
    model = scripted(Answer(text=LONG), SUMMARY)
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        done = await thread.compact()
        assert await epochs(thread) == [("compaction", "linear")]
    assert done.by == "linear"
    assert results == [
        CompactResult(
            compacted=True, tokens_before=done.tokens_before, tokens_after=done.tokens_after
        )
    ]


async def test_a_full_view_of_an_engine_that_owns_nothing_is_compacted_by_the_runtime(tmp_path):
    engine = Probe()
    model = scripted(Answer(text=LONG, usage=FULL), SUMMARY, Answer(text="b"))
    async with open_thread(tmp_path, model, facts=LIMIT, engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
    assert [end.by for end in of(heard, CompactionFinished)] == ["linear"]
    assert "compact" not in engine.calls


async def test_an_engine_may_write_the_summary_of_the_runtime_s_compaction(tmp_path):
    engine = Intercepting(intercept_compaction=InterceptResult(summary="It rained on us."))
    model = scripted(Answer(text=LONG, usage=FULL), Answer(text="b"))
    async with open_thread(tmp_path, model, facts=LIMIT, engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
    (given,) = engine.given("intercept_compaction")
    assert [describe_item(item) for item in given.items] == ["first", LONG]
    assert given.trigger == "auto"
    assert b"It rained on us." in model.requests[1].body
    assert len(model.requests) == 2


@pytest.mark.parametrize("answer", [InterceptResult(), ValueError("odd")], ids=["none", "error"])
async def test_where_the_engine_writes_no_summary_the_runtime_does(tmp_path, answer):
    engine = Intercepting(intercept_compaction=answer)
    model = scripted(Answer(text=LONG, usage=FULL), SUMMARY, Answer(text="b"))
    async with open_thread(tmp_path, model, facts=LIMIT, engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
    assert last(heard).text == "b"
    assert b"A summary." in model.requests[-1].body
    assert bool(notices(heard)) == isinstance(answer, ValueError)


@pytest.mark.parametrize("info", [OWNER, EngineInfo(id="other", name="Other")], ids=lambda i: i.id)
async def test_an_overflow_is_the_engine_s_to_answer_once(tmp_path, info):
    engine = Probe(info, compact=compacts)
    model = scripted(Answer(text=LONG), TOO_LONG, Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
    (given,) = engine.given("compact")
    assert (given.trigger, given.live, given.force) == ("overflow", True, True)
    assert last(heard).text == "b"
    assert shows(model.requests[-1]) == ["It rained.", "second"]


async def test_an_overflow_that_stays_fails_the_turn_after_one_compaction(tmp_path):
    engine = Probe(OWNER, compact=compacts)
    model = scripted(Answer(text=LONG), TOO_LONG, TOO_LONG, Answer(text="c"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
        assert last(await hear(thread, "third")).text == "c"
    assert last(heard).status == "failed"
    assert len(engine.given("compact")) == 1


async def test_an_overflow_of_the_first_turn_fails_it_and_nothing_else(tmp_path):
    model = scripted(TOO_LONG, Answer(text="b"))
    async with open_thread(tmp_path, model, engine=Probe()) as thread:
        heard = await hear(thread, "first")
        assert await epochs(thread) == []
        assert last(await hear(thread, "second")).text == "b"
    assert last(heard).status == "failed"


FREES_NOTHING: dict[str, Any] = {
    "it says so": CompactResult(ok=False, reason="all of it is needed"),
    "it does nothing": CompactResult(),
    "the same view": lambda given: CompactResult(compacted=True, rebase=Rebase(items=given.items)),
    "a larger view": lambda given: CompactResult(
        compacted=True, rebase=Rebase(items=(engine_message(LONG), *given.items))
    ),
}


@pytest.mark.parametrize("answer", FREES_NOTHING.values(), ids=FREES_NOTHING)
async def test_a_compaction_that_frees_nothing_publishes_nothing_and_says_so(tmp_path, answer):
    engine = Probe(OWNER, compact=answer)
    model = scripted(Answer(text="a"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        with pytest.raises(CannotCompact, match="owner"):
            await thread.compact()
        assert await epochs(thread) == []
        assert chatter(thread) == ["first", "a"]


async def test_an_overflow_is_not_answered_by_compactions_that_free_nothing(tmp_path):
    engine = Probe(OWNER, compact=CompactResult())
    model = scripted(Answer(text="a"), TOO_LONG)
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
    assert last(heard).status == "failed"
    assert len(engine.given("compact")) == 1
    assert len(model.requests) == 2
    assert any("could not make room" in text for text in notices(heard))


def warns(given: Any) -> AssembleResult:
    """Shows all, and has the runtime look whether it fits."""
    return AssembleResult(items=given.items, prompt_authority="preassembly_may_overflow")


async def test_a_view_that_stays_full_is_not_compacted_at_every_step(tmp_path):
    engine = Probe(OWNER, assemble=warns, compact=CompactResult(ok=False, reason="no"))
    looks = [Answer(calls=(call("look"),), usage=FULL) for _ in range(4)]
    model = scripted(*looks, Answer(text="done"))
    async with open_thread(tmp_path, model, facts=LIMIT, tools=(look,), engine=engine) as thread:
        heard = await hear(thread, "first")
    assert last(heard).text == "done"
    assert len(engine.given("compact")) == 1


async def test_a_compaction_that_made_room_is_not_repeated_at_the_next_step(tmp_path):
    engine = Probe(OWNER, assemble=warns, compact=compacts)
    model = scripted(
        Answer(text=LONG),
        Answer(calls=(call("look"),), usage=FULL),
        Answer(calls=(call("look"),)),
        Answer(calls=(call("look"),)),
        Answer(text="done"),
    )
    async with open_thread(tmp_path, model, facts=LIMIT, tools=(look,), engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
    assert last(heard).text == "done"
    assert len(of(heard, CompactionStarted)) == 1


async def test_maintenance_and_compaction_do_not_set_each_other_off(tmp_path):
    engine = Tidying(
        OWNER,
        compact=compacts,
        maintain=lambda given: MaintainResult(
            changed=True, rebase=Rebase(items=(engine_message("Tidied."), *given.items[-1:]))
        ),
    )
    model = scripted(Answer(text=LONG), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        engine.asked.clear()
        await hear(thread, "second")
        with pytest.raises(CannotCompact):
            await thread.compact()
    assert engine.calls == ["assemble", "ingest", "ingest", "maintain", "compact"]


async def test_by_hand_a_compaction_that_fails_is_an_error_and_changes_nothing(tmp_path):
    engine = Probe(OWNER, compact=OSError("the disk is full"))
    model = scripted(Answer(text=LONG), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        with pytest.raises(EngineFailed, match="the disk is full"):
            await thread.compact()
        assert await epochs(thread) == []
        assert last(await hear(thread, "second")).text == "b"
    assert len(engine.given("compact")) == 1
    assert len(model.requests) == 2


async def test_where_no_room_is_left_the_runtime_helps_out_an_engine_that_fails(tmp_path):
    engine = Probe(OWNER, compact=OSError("the disk is full"))
    model = scripted(Answer(text=LONG), TOO_LONG, SUMMARY, Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
        assert await epochs(thread) == [("compaction", "linear")]
    assert last(heard).text == "b"
    assert "compaction.failed" in actions(heard)
    assert any("the runtime compacts the view" in text for text in notices(heard))


async def test_an_engine_has_three_minutes_to_compact():
    assert EngineTimeouts().compact == 180.0


@pytest.mark.parametrize("wanted", [None, ()], ids=["all of it", "nothing of the host's"])
async def test_a_compaction_that_hangs_is_told_to_stop_and_not_waited_for(tmp_path, wanted):
    info = EngineInfo(id="slow", name="Slow", owns_compaction=True, accepted_host_params=wanted)
    engine = Probe(info, compact=lambda _: asyncio.Event().wait())
    timeouts = EngineTimeouts(compact=0.05)
    async with open_thread(
        tmp_path, scripted(Answer(text="a")), engine=engine, timeouts=timeouts
    ) as thread:
        await hear(thread, "first")
        with pytest.raises(EngineFailed, match=r"no answer within 0\.05 s"):
            await thread.compact()
    (given,) = engine.given("compact")
    assert given.cancelled.is_set()
    assert (given.context is None) == (wanted == ())


async def test_a_compaction_that_nobody_waits_for_is_told_to_stop(tmp_path):
    reached = asyncio.Event()

    async def hangs(given: CompactParams) -> CompactResult:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError(given)

    engine = Probe(OWNER, compact=hangs)
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=engine) as thread:
        await hear(thread, "first")
        task = asyncio.create_task(thread.compact())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert engine.given("compact")[0].cancelled.is_set()


async def test_the_runtime_s_own_compaction_takes_the_time_it_needs(tmp_path):
    model = scripted(Answer(text=LONG), Answer(text="A summary.", delay=1.5))
    timeouts = EngineTimeouts(compact=1.0)  # for the engine to delegate, also on a busy machine
    async with open_thread(tmp_path, model, engine=Probe(), timeouts=timeouts) as thread:
        await hear(thread, "first")
        assert (await thread.compact()).by == "linear"


async def test_a_compaction_that_makes_no_sense_is_an_error_and_changes_nothing(tmp_path):
    engine = Probe(OWNER, compact=CompactResult(compacted=True, rebase=Rebase(items=())))
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=engine) as thread:
        await hear(thread, "first")
        with pytest.raises(EngineFailed, match="no items at all"):
            await thread.compact()
        assert chatter(thread) == ["first", "a"]


async def test_who_compacted_is_reported(tmp_path):
    told: list[Any] = []
    engine = Probe(OWNER, compact=compacts)
    async with open_thread(tmp_path, scripted(Answer(text=LONG)), engine=engine) as thread:
        thread.observers.append(told.append)
        await hear(thread, "first")
        engine.answers["compact"] = CompactResult(
            compacted=True, rebase=Rebase(items=(engine_message("It rained."),))
        )
        done = await thread.compact()
        engine.answers["compact"] = ValueError(LONG)
        with pytest.raises(EngineFailed):
            await thread.compact()
    found = [(report.action, report.tokens, report.reason) for report in reports(told)]
    assert found[-2:] == [
        ("compaction.completed", done.tokens_after, "by owner"),
        ("compaction.failed", None, "ValueError"),
    ]


async def test_an_input_under_way_survives_a_compaction_that_leaves_it_out(tmp_path):
    def forgets(_: CompactParams) -> CompactResult:
        return CompactResult(compacted=True, rebase=Rebase(items=(engine_message("It rained."),)))

    engine = Probe(OWNER, compact=forgets)
    model = scripted(Answer(text=LONG), TOO_LONG, SUMMARY, Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
    assert last(heard).text == "b"
    assert shows(model.requests[-1])[-1] == "second"
    assert any("left out what was said" in text for text in notices(heard))


async def test_an_engine_waits_for_a_slow_model_as_long_as_it_answers(tmp_path):
    async def asks(given: CompactParams) -> CompactResult:
        assert given.context is not None
        assert given.context.complete is not None
        return CompactResult(ok=False, reason=await given.context.complete("How is it?"))

    model = scripted(Answer(text="a"), Answer(text="It is slow.", delay=0.5))
    engine, timeouts = Probe(OWNER, compact=asks), EngineTimeouts(compact=0.2)
    async with open_thread(tmp_path, model, engine=engine, timeouts=timeouts) as thread:
        await hear(thread, "first")
        with pytest.raises(CannotCompact, match="It is slow"):
            await thread.compact()
