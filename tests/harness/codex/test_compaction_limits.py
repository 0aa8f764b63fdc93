from __future__ import annotations

import asyncio

import pytest

from tests.engines.scenes import Intercepting, Probe, chatter, epochs
from tests.harness.codex.scenes import (
    hear,
    last,
    of,
    open_stage,
    request_items,
    roles_and_texts,
    talk,
    use_scripted_server,
)
from tests.harness.scenes import log
from treadle.core.errors import CannotCompact
from treadle.engines.contract import EngineInfo
from treadle.engines.values import InterceptResult
from treadle.harness.codex.codex_home import has_model
from treadle.harness.events import CompactionFinished, CompactionStarted, Event, HarnessReported
from treadle.testing.appserver import AppFault, AppScript, AppStep, TurnScript, received_messages
from treadle.testing.script import Answer, Call, Tokens

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)
BEYOND = Tokens(input=5_000_000)
"""More than any model holds, and than Codex would let stand."""
LONG = "many words " * 500
BACKEND = "codex-app-server"

BEGINS = AppStep(
    notify="item/started", params={"item": {"type": "contextCompaction", "id": "compact"}}
)
HANGS = TurnScript(steps=(BEGINS, AppStep(wait=True)))


def threads_used(events: list[Event]) -> list[str]:
    """Why Codex threads were started or used again."""
    return [f"{each.what}: {each.reason}" for each in of(events, HarnessReported)]


@pytest.mark.parametrize("model", ["openai:gpt-5.5", "openai:mystery-1", "openai:gpt-6.1-sol"])
async def test_with_an_owner_codex_never_compacts_by_itself(tmp_path, model):
    engine = Probe(OWNER)
    runs = Call(name="exec_command", arguments={"cmd": "echo hi", "yield_time_ms": 1000})
    answers = (
        Answer(text="a", usage=BEYOND),
        Answer(text="b", calls=(runs,), usage=BEYOND),
        Answer(text="c", usage=BEYOND),
        Answer(text="d", usage=BEYOND),
    )
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(engine=engine, model=model) as thread,
    ):
        turns = [await hear(thread, text) for text in ("one", "two", "three")]
        assert [last(events).text for events in turns] == ["a", "c", "d"]
        assert [of(events, CompactionStarted) for events in turns] == [[], [], []]
        assert len(stage.requests) == 4
        assert "compact" not in engine.calls


async def test_without_one_the_same_figures_make_codex_compact(tmp_path):
    answers = (Answer(text=LONG, usage=BEYOND), Answer(text="A summary."), Answer(text="b"))
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(model="openai:mystery-1") as thread,
    ):
        await talk(thread, "one")
        events = await hear(thread, "two")
    assert [each.by for each in of(events, CompactionFinished)] == [BACKEND]


async def test_an_engine_that_writes_summaries_compacts_in_the_place_of_codex(tmp_path):
    engine = Intercepting(intercept_compaction=InterceptResult(summary="It rained on us."))
    answers = (Answer(text=LONG, usage=BEYOND), Answer(text="b"))
    async with open_stage(tmp_path, *answers) as stage, stage.thread(engine=engine) as thread:
        await talk(thread, "one")
        events = await hear(thread, "two")
        assert [each.by for each in of(events, CompactionFinished)] == ["engine"]
        assert await epochs(thread) == [("compaction", "engine")]
        assert last(events).text == "b"
    assert len(stage.requests) == 2
    one, summary, two = (text for _, text in roles_and_texts(request_items(stage.requests[-1])))
    assert (one, two) == ("one", "two")
    assert summary.endswith("\nIt rained on us.")
    (given,) = engine.given("intercept_compaction")
    assert given.trigger == "auto"


async def test_a_compaction_that_codex_does_all_the_same_is_its_own_and_ends_its_thread(tmp_path):
    engine = Probe(OWNER)
    compacting = TurnScript(steps=(AppStep(compact=True), AppStep(text="b")))
    script = AppScript(turns=(TurnScript(steps=(AppStep(text="a"),)), compacting))
    async with open_stage(tmp_path) as stage:
        place = await use_scripted_server(stage, script)
        async with stage.thread(engine=engine) as thread:
            await talk(thread, "one")
            events = await hear(thread, "two")
            (finished,) = of(events, CompactionFinished)
            assert (finished.by, finished.error) == (BACKEND, None)
            assert finished.details == {"backend": BACKEND, "owns_compaction": True}
            assert finished.tokens_after == finished.tokens_before
            assert chatter(thread) == ["one", "a", "two", "b"]
            assert await epochs(thread) == []
            assert not any("summary" in line for line in await log(thread))
            again = await hear(thread, "three")
            assert threads_used(again) == ["thread.started: native-compaction"]
        (injected,) = received_messages(place, "thread/inject_items")
        texts = [item["content"][0]["text"] for item in injected["params"]["items"]]
        assert texts == ["one", "a", "two", "b"]
    assert "compact" not in engine.calls


async def test_a_summary_that_codex_died_over_is_nothing_that_was_said(tmp_path):
    dies = TurnScript(steps=(BEGINS, AppStep(text="A summary."), AppStep(die=-9)))
    async with open_stage(tmp_path) as stage:
        place = await use_scripted_server(stage, AppScript(turns=(dies,)))
        async with stage.thread() as thread:
            events = await hear(thread, "one")
            assert last(events).status == "failed"
            assert await log(thread) == ["user: one"]
            assert [each.by for each in of(events, CompactionFinished)] == [BACKEND, BACKEND]
        assert "A summary." in "".join(path.read_text() for path in place.glob("rollout-*"))


async def test_a_compaction_by_hand_that_never_ends_is_interrupted_and_told(tmp_path):
    async with open_stage(tmp_path) as stage:
        place = await use_scripted_server(stage, AppScript(compaction=HANGS))
        stage.harness.compact_seconds = 0.2
        async with stage.thread() as thread:
            await talk(thread, "one")
            events: list[Event] = []
            thread.observers.append(events.append)
            with pytest.raises(CannotCompact, match=r"it took longer than 0\.2 s"):
                await thread.compact()
            (finished,) = of(events, CompactionFinished)
            assert (finished.by, finished.error) == (BACKEND, "it took longer than 0.2 s")
            assert len(received_messages(place, "turn/interrupt")) == 1
            assert chatter(thread) == ["one", "Done."]
            again = await hear(thread, "two")
            assert threads_used(again) == ["thread.started: native-compaction"]


async def test_a_compaction_by_hand_that_cannot_even_be_interrupted_is_given_up(tmp_path):
    silence = AppFault(method="turn/interrupt", kind="silence")
    async with open_stage(tmp_path) as stage:
        await use_scripted_server(stage, AppScript(compaction=HANGS, faults=(silence,)))
        stage.harness.compact_seconds = 0.2
        async with stage.thread() as thread:
            await talk(thread, LONG, "two")
            with pytest.raises(CannotCompact, match=r"it took longer than 0\.2 s"):
                await thread.compact()
            again = await hear(thread, "three")
            assert threads_used(again) == ["thread.started: native-compaction"]


async def test_a_compaction_by_hand_that_is_cancelled_stops_codex_and_gives_its_thread_up(tmp_path):
    async with open_stage(tmp_path) as stage:
        place = await use_scripted_server(stage, AppScript(compaction=HANGS))
        async with stage.thread() as thread:
            await talk(thread, "one")
            begun = asyncio.Event()
            thread.observers.append(
                lambda event: begun.set() if isinstance(event, CompactionStarted) else None
            )
            compacting = asyncio.create_task(thread.compact())
            await begun.wait()
            compacting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await compacting
            assert len(received_messages(place, "turn/interrupt")) == 1
            again = await hear(thread, "two")
            assert threads_used(again) == ["thread.started: native-compaction"]


async def test_an_app_server_that_knows_no_compaction_is_told_of(tmp_path):
    async with open_stage(tmp_path) as stage:
        await use_scripted_server(stage, AppScript(lacks=("thread/compact/start",)))
        async with stage.thread() as thread:
            await talk(thread, "one")
            with pytest.raises(CannotCompact, match="codex-app-server did not compact"):
                await thread.compact()
            again = await hear(thread, "two")
            assert last(again).status == "completed"
            assert threads_used(again) == ["thread.reused: per-turn-projection"]


async def test_a_model_that_codex_does_not_know_is_offered_no_other_tools_for_an_owner_s_sake(
    tmp_path,
):
    async with open_stage(tmp_path) as stage:
        for engine in ("linear", Probe(OWNER)):
            async with stage.thread(engine=engine, model="openai:mystery-1") as thread:
                await talk(thread, "one")
        assert len(stage.harness.servers.servers) == 2
    plain_one, lifted = (request.payload for request in stage.requests)
    keys = ("model", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "include")
    assert [lifted.get(key) for key in keys] == [plain_one.get(key) for key in keys]
    assert [item.get("role") for item in lifted["input"]] == [
        item.get("role") for item in plain_one["input"]
    ]


@pytest.mark.parametrize(
    ("slug", "known"),
    [("gpt-5.5", True), ("gpt-5.5-x", True), ("acme/gpt-5.5", True), ("gpt-5", False)],
)
def test_codex_knows_models_by_how_their_names_begin(slug, known):
    assert has_model(b'{"models":[{"slug":""},{"slug":"gpt-5.5"}]}', slug) is known
