from __future__ import annotations

from typing import Any

from tests.engines.scenes import (
    Probe,
    actions,
    engine_message,
    epochs,
    guidance,
    past,
    shows,
)
from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle.engines.contract import EngineInfo
from treadle.engines.values import AssembleParams, AssembleResult
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


async def test_an_owner_is_asked_before_every_model_call_of_the_tool_loop(tmp_path):
    engine = Probe(OWNER)
    model = scripted(
        Answer(calls=(call("look"),)), Answer(calls=(call("look"),)), Answer(text="done")
    )
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, model, thread=thread, tools=(look,), engine=engine) as again:
        heard = await hear(again, "first")
    seen = engine.given("assemble")
    assert [len(given.items) for given in seen] == [3, 5, 7]
    assert [given.pre_prompt_count for given in seen] == [2, 2, 2]
    assert [given.prompt for given in seen] == ["first", None, None]
    assert actions(heard).count("assemble.applied") == 3


async def test_another_engine_is_asked_at_the_start_of_the_turn_only(tmp_path):
    engine = Probe()
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(look,), engine=engine) as thread:
        await hear(thread, "first")
    assert engine.calls.count("assemble") == 1


async def test_an_owner_may_change_the_view_and_its_guidance_inside_a_turn(tmp_path):
    def between(given: AssembleParams) -> AssembleResult:
        if given.prompt is not None:
            return AssembleResult(items=given.items)
        items = (engine_message("It rained."), *given.items[given.pre_prompt_count :])
        return AssembleResult(items=items, system_prompt_addition="Ask memory.")

    thread = await past(tmp_path, "rain", "snow")
    engine = Probe(OWNER, assemble=between)
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"))
    async with open_thread(tmp_path, model, thread=thread, tools=(look,), engine=engine) as again:
        await hear(again, "first")
        assert await epochs(again) == [("publish", "owner")]
    assert shows(model.requests[-1]) == ["It rained.", "first", "call look", "output seen"]
    assert len(guidance(model.requests[-1])) == 1


async def test_a_failure_inside_a_turn_leaves_the_raw_view(tmp_path):
    def breaks(given: AssembleParams) -> Any:
        return AssembleResult(items=given.items) if given.prompt else ValueError("odd")

    engine = Probe(OWNER, assemble=breaks)
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(look,), engine=engine) as thread:
        heard = await hear(thread, "first")
    assert last(heard).text == "done"
    assert actions(heard)[:2] == ["assemble.applied", "assemble.failed"]
    assert shows(model.requests[-1]) == ["first", "call look", "output seen"]


async def test_what_was_said_to_a_turn_stays_until_its_end_unless_the_engine_covers_it(tmp_path):
    def forgets(given: AssembleParams) -> AssembleResult:
        if given.prompt is not None:
            return AssembleResult(items=given.items)
        record, rest = engine_message("It rained."), given.items[1:]
        return AssembleResult(items=(record, *rest), covers_current_turn=covers)

    shown = []
    for covers in (False, True):
        model = scripted(Answer(calls=(call("look"),)), Answer(text="done"))
        engine = Probe(OWNER, assemble=forgets)
        async with open_thread(tmp_path, model, tools=(look,), engine=engine) as thread:
            heard = await hear(thread, "first")
        assert actions(heard)[1] == ("assemble.applied" if covers else "assemble.failed")
        shown.append(shows(model.requests[-1]))
    assert shown == [
        ["first", "call look", "output seen"],
        ["It rained.", "call look", "output seen"],
    ]
