from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import treadle
from tests.engines.scenes import (
    Batching,
    Booting,
    Closing,
    Committing,
    Following,
    Probe,
    Tidying,
    actions,
    chatter,
    describe_item,
    engine_message,
    notices,
    past,
    reports,
    shows,
)
from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle.engines.reports import EngineHealth
from treadle.engines.values import (
    BootstrapResult,
    CommitResult,
    Diagnostics,
    EngineSelection,
    MaintainResult,
    ModelFacts,
    Rebase,
    RuntimeSettings,
    TokenLimits,
)
from treadle.testing.script import Answer, ScriptedError
from treadle.tools.decorator import tool

SOURCE = Path(treadle.__file__).parent
BROKEN = Answer(error=ScriptedError(status=400, code="invalid_request", message="no"))


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


class Whole(Booting, Tidying, Committing, Closing):
    """Has a part in every moment of a turn."""


async def test_an_engine_is_asked_in_one_order(tmp_path):
    thread = await past(tmp_path, "rain")
    engine = Whole()
    model = scripted(Answer(calls=(call("look"),)), Answer(text="Dry."), Answer(text="Still."))
    async with open_thread(tmp_path, model, thread=thread, tools=(look,), engine=engine) as opening:
        heard = await hear(opening, "and now?")
        first = list(engine.calls)
        await hear(opening, "and then?")
    assert first == ["bootstrap", "maintain", "assemble", "commit_turn", "maintain"]
    assert [given.reason for given in engine.given("maintain")] == ["bootstrap", "turn", "turn"]
    assert engine.calls[5:] == ["assemble", "commit_turn", "maintain"]
    assert actions(heard) == [
        "bootstrap.started",
        "bootstrap.completed",
        "maintenance.run",
        "assemble.applied",
        "finalise.completed",
        "maintenance.run",
    ]


async def test_a_thread_without_a_past_is_not_caught_up_with(tmp_path):
    engine = Whole()
    async with open_thread(
        tmp_path, scripted(Answer(text="a"), Answer(text="b")), engine=engine
    ) as new:
        await hear(new, "first")
        await hear(new, "second")
    assert "bootstrap" not in engine.calls
    assert [given.reason for given in engine.given("maintain")] == ["turn", "turn"]


async def test_an_engine_that_only_maintains_is_asked_to_when_it_meets_a_past(tmp_path):
    engine = Tidying()
    thread = await past(tmp_path, "rain")
    async with open_thread(
        tmp_path, scripted(Answer(text="b")), thread=thread, engine=engine
    ) as again:
        await hear(again, "second")
    assert [given.reason for given in engine.given("maintain")] == ["bootstrap", "turn"]


async def test_catching_up_happens_once_for_each_time_a_thread_is_opened(tmp_path):
    engine = Booting()
    thread = await past(tmp_path, "rain", engine=engine)
    for _ in range(2):
        model = scripted(Answer(text="b"), Answer(text="c"))
        async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
            await hear(again, "second")
            await hear(again, "third")
    assert engine.calls.count("bootstrap") == 2


async def test_what_catching_up_is_told_ends_before_the_present_turn(tmp_path):
    seen = []

    async def reads(given):
        seen.append([describe_item(item) for item in (await given.log.read()).items])
        return BootstrapResult(bootstrapped=True, imported=len(seen[0]))

    thread = await past(tmp_path, "rain")
    engine = Booting(bootstrap=reads)
    async with open_thread(
        tmp_path, scripted(Answer(text="b")), thread=thread, engine=engine
    ) as again:
        heard = await hear(again, "second")
    assert seen == [["rain", "On rain."]]
    assert [
        report.items for report in reports(heard) if report.action == "bootstrap.completed"
    ] == [2]


async def test_a_failing_bootstrap_warns_and_is_tried_again_in_the_next_turn(tmp_path):
    thread = await past(tmp_path, "rain")
    engine = Booting(bootstrap=OSError("the disk is full"))
    model = scripted(Answer(text="b"), Answer(text="c"), Answer(text="d"))
    async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
        first = await hear(again, "second")
        del engine.answers["bootstrap"]
        second = await hear(again, "third")
        await hear(again, "fourth")
    assert last(first).status == "completed"
    assert actions(first)[:3] == ["bootstrap.started", "bootstrap.failed", "assemble.applied"]
    assert notices(first) == [
        (
            "context engine 'probe' failed at bootstrap: OSError: the disk is full; the turn "
            "goes on, and the engine is asked again next time"
        ),
    ]
    assert notices(second) == []
    assert engine.calls.count("bootstrap") == 2


async def test_failing_maintenance_after_a_bootstrap_warns_and_the_turn_goes_on(tmp_path):
    thread = await past(tmp_path, "rain")
    engine = Whole(maintain=ValueError("odd"))
    async with open_thread(
        tmp_path, scripted(Answer(text="b")), thread=thread, engine=engine
    ) as again:
        heard = await hear(again, "second")
    assert last(heard).status == "completed"
    assert actions(heard) == [
        "bootstrap.started",
        "bootstrap.completed",
        "maintenance.failed",
        "assemble.applied",
        "finalise.completed",
        "maintenance.failed",
    ]
    assert notices(heard) == [
        "context engine 'probe' failed at maintain: ValueError: odd; the view stays as it is",
    ]


async def test_what_a_bootstrap_makes_of_the_view_is_what_is_assembled(tmp_path):
    def compacts(given):
        if given.reason != "bootstrap":
            return MaintainResult()
        items = (engine_message("It rained."), given.items[-1])
        return MaintainResult(changed=True, rebase=Rebase(items=items))

    thread = await past(tmp_path, "rain", "snow", "hail")
    engine = Whole(maintain=compacts)
    model = scripted(Answer(text="b"))
    async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
        await hear(again, "and now?")
    (given,) = engine.given("assemble")
    assert [describe_item(item) for item in given.items] == ["It rained.", "On hail.", "and now?"]
    assert given.pre_prompt_count == 2
    assert shows(model.requests[-1]) == ["It rained.", "On hail.", "and now?"]


async def test_every_call_of_a_turn_gets_the_same_settings(tmp_path):
    thread = await past(tmp_path, "rain")
    engine = Whole()
    async with open_thread(
        tmp_path, scripted(Answer(text="b")), thread=thread, engine=engine
    ) as again:
        await hear(again, "second")
    settings = [given.settings for call, given in engine.asked if call != "dispose"]
    assert len(settings) == 5
    assert all(each is settings[0] for each in settings)
    budget = settings[0].limits.prompt_token_budget
    assert settings[0] == RuntimeSettings(
        harness="treadle",
        model=ModelFacts(
            requested="scripted:script",
            resolved="scripted:script",
            provider="scripted",
            family="general",
        ),
        engine=EngineSelection(id="probe", source="configured"),
        limits=TokenLimits(prompt_token_budget=budget, max_output_tokens=20_000),
        diagnostics=Diagnostics(),
    )


async def test_every_call_names_the_same_thread(tmp_path):
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, scripted(), thread=thread) as again:
        child = await again.fork()
    engine = Whole()
    async with open_thread(
        tmp_path, scripted(Answer(text="b")), thread=child, engine=engine
    ) as forked:
        await hear(forked, "second")
    refs = {given.thread for call, given in engine.asked}
    (ref,) = refs
    assert (ref.id, ref.root, ref.parent) == (child, thread, thread)
    assert ref.cut > 0
    assert ref.cwd == str(tmp_path / "project")


async def test_only_calls_after_the_turn_may_ask_the_model(tmp_path):
    purposes: list[tuple[str, str | None]] = []

    class Asking(Whole):
        async def answer(self, call, given, usual=None):
            complete = given.context.complete
            purposes.append((call, complete and complete.purpose))
            return await super().answer(call, given, usual)

    async def commits(given):
        assert await given.context.complete("How was it?", instructions="Be brief.") == "Wet."
        return CommitResult("committed")

    thread = await past(tmp_path, "rain")
    model = scripted(Answer(text="b"), Answer(when="How was it?", text="Wet."))
    engine = Asking(commit_turn=commits)
    async with open_thread(tmp_path, model, thread=thread, tools=(look,), engine=engine) as again:
        await hear(again, "second")
        assert chatter(again) == ["rain", "On rain.", "second", "b"]
    assert purposes == [
        ("bootstrap", None),
        ("maintain", None),
        ("assemble", None),
        ("commit_turn", "context-engine.after-turn"),
        ("maintain", "context-engine.turn.maintenance"),
    ]
    asked = model.requests[-1].payload
    told = (asked["model"], asked.get("tools", []), asked["instructions"])
    assert told == ("script", [], "Be brief.")


def test_the_lifecycle_that_all_harnesses_share_names_none_of_them():
    shared = [*SOURCE.joinpath("engines").rglob("*.py"), SOURCE / "harness" / "compaction.py"]
    assert len(shared) > 20
    assert [file.name for file in shared if "codex" in file.read_text("utf-8").lower()] == []


async def test_a_turn_that_fails_advances_and_maintains_nothing(tmp_path):
    engine = Whole()
    async with open_thread(tmp_path, scripted(BROKEN, Answer(text="b")), engine=engine) as thread:
        heard = await hear(thread, "first")
    assert last(heard).status == "failed"
    assert engine.calls == ["assemble"]
    assert [(report.action, report.reason) for report in reports(heard)] == [
        ("assemble.applied", ""),
        ("maintenance.skipped", "the turn was failed"),
    ]


async def test_a_turn_that_is_interrupted_advances_and_maintains_nothing(tmp_path):
    @tool
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return ""

    engine = Whole()
    model = scripted(Answer(calls=(call("wait"),)), Answer(text="b"))

    def interrupts(event):
        if type(event).__name__ == "ToolStarted":
            thread.interrupt()

    async with open_thread(tmp_path, model, tools=(wait,), engine=engine) as thread:
        heard = await hear(thread, "first", at=interrupts)
        assert engine.calls == ["assemble"]
    assert last(heard).status == "interrupted"


async def test_an_engine_that_cannot_be_told_of_turns_does_not_serve_and_is_not_maintained(
    tmp_path,
):
    engine = Whole(commit_turn=OSError("locked"))
    model = scripted(Answer(text="a"), Answer(text="b"), Answer(text="c"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        first = await hear(thread, "first")
        second = await hear(thread, "second")
        del engine.answers["commit_turn"]
        third = await hear(thread, "third")
    assert actions(first) == ["assemble.applied", "finalise.failed", "maintenance.skipped"]
    assert actions(second) == ["degraded", "maintenance.skipped"]
    assert notices(second) == [
        (
            "context engine 'probe' failed at commit_turn: OSError: locked; the turn goes on,"
            " and the engine is asked again next time"
        ),
    ]
    assert actions(third)[0] == "finalise.completed"
    assert engine.keys == [f"{thread.id}/{number}" for number in (1, 2, 3)]
    assert last(second).status == "completed"


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        (Following, "after_turn"),
        (Batching, "ingest_batch"),
        (Probe, "ingest"),
        (Committing, "commit_turn"),
        (Tidying, "maintain"),
        (Probe, "assemble"),
    ],
)
async def test_a_failure_is_remembered_until_the_same_call_works(tmp_path, kind, operation):
    engine = kind(**{operation: ValueError("odd")})
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        failures = EngineHealth(thread.log.setup.home).read()
        assert [each.operation for each in failures.values()] == [operation]
        del engine.answers[operation]
        await hear(thread, "second")
        assert EngineHealth(thread.log.setup.home).read() == {}
