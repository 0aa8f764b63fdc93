from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engines.scenes import (
    Probe,
    Tidying,
    Twins,
    actions,
    chatter,
    describe_item,
    engine_message,
    epochs,
    notices,
    shows,
)
from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle.core.items import FunctionCall, FunctionCallOutput, InputText, Message, encode_item
from treadle.engines.contract import EngineInfo
from treadle.engines.guard import EngineTimeouts
from treadle.engines.values import AssembleParams, AssembleResult, ContextItem
from treadle.testing.script import Answer
from treadle.tools.decorator import tool


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


ORPHAN = ContextItem.of(FunctionCallOutput(call_id="nobody", output="?"))
UNANSWERED = ContextItem.of(FunctionCall(name="look", arguments="{}", call_id="open"))
SYSTEM = ContextItem.of(Message(role="system", content=(InputText("Obey."),)))
FOREIGN = ContextItem(body=encode_item(Message(role="user", content=())), id="thr_other:4", seq=4)
HUGE = engine_message("a word " * 20_000)


def filling(tokens: int) -> ContextItem:
    return engine_message("word" * tokens)


NONSENSE: dict[str, tuple[Any, str]] = {
    "nothing": (None, "it answered with NoneType, not AssembleResult"),
    "something else": ({"items": []}, "it answered with dict, not AssembleResult"),
    "no items": (AssembleResult(items=()), "it gave no items at all"),
    "items that are none": (AssembleResult(items=None), "its AssembleResult cannot be used"),  # type: ignore[arg-type]
    "items of no kind": (AssembleResult(items=("hello",)), "its AssembleResult cannot be used"),  # type: ignore[arg-type]
    "an orphan output": (AssembleResult(items=(ORPHAN,)), "an output without its call"),
    "an open call": (AssembleResult(items=(UNANSWERED,)), "a call without its output"),
    "a system message": (AssembleResult(items=(SYSTEM,)), "a system message"),
    "another thread's item": (AssembleResult(items=(FOREIGN,)), "'thr_other:4'"),
    "bytes that are no item": (
        AssembleResult(items=(ContextItem(body=b"\xff"),)),
        "one of its items cannot be read",
    ),
    "more than fits": (AssembleResult(items=(HUGE,)), "tokens where"),
    "an error": (KeyError("index"), "KeyError: 'index'"),
}


@pytest.mark.parametrize(("answer", "told"), NONSENSE.values(), ids=NONSENSE)
async def test_an_assembly_that_makes_no_sense_leaves_the_view_as_it_is(tmp_path, answer, told):
    twins = await Twins.born(tmp_path)
    bodies = []
    for name, engine in (("plain", "linear"), ("broken", Probe(assemble=answer))):
        model = scripted(Answer(text="a"), Answer(text="b"))
        facts = "context_window = 30000"
        async with twins.opened(name, model, facts=facts, engine=engine) as thread:
            await hear(thread, "first")
            heard = await hear(thread, "second")
        assert last(heard).text == "b"
        bodies.append([request.body for request in model.requests])
    assert bodies[0] == bodies[1]
    assert actions(heard)[0] == "assemble.failed"
    (notice,) = notices(heard)
    assert told in notice
    assert notice.startswith("context engine 'probe' failed at assemble: ")
    assert notice.endswith("; the turn goes on, and the engine is asked again next time")


async def test_room_for_the_input_is_not_an_engine_s_to_fill(tmp_path):
    long = "a word " * 6_000

    def greedy(given: AssembleParams) -> AssembleResult:
        assert given.token_budget
        return AssembleResult(items=(filling(given.token_budget + 1_000), *given.items))

    engine = Probe(assemble=greedy)
    model = scripted(Answer(text="a"))
    async with open_thread(
        tmp_path, model, facts="context_window = 60000", engine=engine
    ) as thread:
        heard = await hear(thread, long)
    assert last(heard).text == "a"
    assert actions(heard)[0] == "assemble.failed"
    assert "tokens where" in notices(heard)[0]


async def test_items_that_were_given_twice_or_cut_apart_leave_the_view_as_it_is(tmp_path):
    answers: list[Any] = [
        lambda given: AssembleResult(items=(given.items[0], *given.items)),
        lambda given: AssembleResult(items=(*given.items[:1], *given.items[2:])),
        lambda given: AssembleResult(items=(given.items[-1], *given.items[:-1])),
    ]
    engine = Probe()
    texts = [Answer(text=text) for text in "bcd"]
    model = scripted(Answer(calls=(call("look"),)), Answer(text="a"), *texts)
    async with open_thread(tmp_path, model, tools=(look,), engine=engine) as thread:
        await hear(thread, "first")
        for answer in answers:
            engine.answers["assemble"] = answer
            heard = await hear(thread, "again")
            assert actions(heard)[0] == "assemble.failed"
        assert await epochs(thread) == []


async def test_an_engine_that_hangs_is_not_waited_for(tmp_path):
    engine = Probe(assemble=lambda _: asyncio.Event().wait())
    timeouts = EngineTimeouts(assemble=0.05)
    model = scripted(Answer(text="a"))
    async with open_thread(tmp_path, model, engine=engine, timeouts=timeouts) as thread:
        heard = await hear(thread, "first")
    assert last(heard).text == "a"
    assert "no answer within 0.05 s" in notices(heard)[0]


async def test_an_engine_that_swallows_its_cancellation_is_left_behind(tmp_path):
    done = asyncio.Event()

    async def stubborn(_: AssembleParams) -> AssembleResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        done.set()
        return AssembleResult(items=(engine_message("Too late."),))

    engine = Probe(assemble=stubborn)
    model = scripted(Answer(text="a"))
    timeouts = EngineTimeouts(assemble=0.05)
    async with open_thread(tmp_path, model, engine=engine, timeouts=timeouts) as thread:
        heard = await hear(thread, "first")
    assert done.is_set()
    assert (last(heard).text, shows(model.requests[0])) == ("a", ["first"])


async def test_what_an_engine_is_given_cannot_be_changed(tmp_path):
    changes: list[Any] = [
        lambda given: setattr(given, "items", ()),
        lambda given: setattr(given.items[0], "body", b"{}"),
        lambda given: given.items.__setitem__(0, given.items[-1]),
        lambda given: given.available_tools.add("rm"),
        lambda given: setattr(given.settings, "mode", "degraded"),
    ]
    engine = Probe()
    model = scripted(*(Answer(text="a") for _ in changes))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        for number, change in enumerate(changes):
            engine.answers["assemble"] = change
            heard = await hear(thread, f"input {number}")
            assert actions(heard)[0] == "assemble.failed"
        expected = [text for number in range(len(changes)) for text in (f"input {number}", "a")]
        assert chatter(thread) == expected


@pytest.mark.parametrize("wanted", [None, (), ("prompt",), ("settings", "context")])
async def test_only_parameters_of_the_host_s_can_be_declined(tmp_path, wanted):
    info = EngineInfo(id="modest", name="Modest", accepted_host_params=wanted)
    engine = Tidying(info)
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=engine) as thread:
        await hear(thread, "first")
    (given,) = engine.given("assemble")
    has = {name for name in ("prompt", "settings", "context") if getattr(given, name) is not None}
    assert has == ({"prompt", "settings", "context"} if wanted is None else set(wanted))
    assert [describe_item(item) for item in given.items] == ["first"]
    assert given.token_budget
    assert given.thread.id == thread.id
    (tidied,) = engine.given("maintain")
    assert (tidied.cancelled is None) == (wanted is not None)
