from __future__ import annotations

from typing import Any

import pytest

from tests.engines.scenes import (
    Batching,
    Booting,
    Committing,
    Following,
    Probe,
    Tidying,
    describe_item,
)
from treadle.core.items import decode_item, item_type
from treadle.engines.values import AssembleResult
from treadle.harness.events import Event, HarnessReported, ItemCompleted, StepStarted, TextDelta
from treadle.hooks import Hooks
from treadle.hooks.payloads import BeforePromptBuild, OnTurnEnd, OnTurnStart
from treadle.testing.script import Answer, Break, Call, ScriptedError
from treadle.tools.decorator import tool

from .scenes import MODEL, hear, last, of, open_stage, request_items, roles_and_texts


@tool(parallel=True)
async def add(a: int, b: int) -> str:
    """Adds."""
    return str(a + b)


class Noted(Booting, Tidying, Committing):
    """An engine that notes what it is asked beside all else that happens."""

    def __init__(self, heard: list[str], **answers: Any) -> None:
        super().__init__(**answers)
        self.heard = heard

    async def answer(self, call: str, given: Any, usual: Any = None) -> Any:
        self.heard.append(call)
        return await super().answer(call, given, usual)


def noting(heard: list[str]) -> Hooks:
    """Hooks that note when they are told of something."""
    hooks = Hooks()
    for event, word in (
        (BeforePromptBuild, "before_prompt_build"),
        (OnTurnStart, "turn_start"),
        (OnTurnEnd, "turn_end"),
    ):

        async def note(_: object, word: str = word) -> None:
            heard.append(word)

        hooks.on(event, note)
    return hooks


def observer(heard: list[str]) -> Any:
    def observe(event: Event) -> None:
        match event:
            case HarnessReported(what=what):
                heard.append(what)
            case StepStarted(step=step):
                heard.append(f"step {step}")
            case ItemCompleted(item=item):
                heard.append(item_type(decode_item(item)))

    return observe


async def test_a_turn_goes_the_way_that_every_harness_has(tmp_path):
    heard: list[str] = []
    calls = Answer(calls=(Call(name="add", arguments={"a": 1, "b": 2}),))
    async with open_stage(tmp_path, Answer(text="hello"), calls, Answer(text="3")) as stage:
        async with stage.thread() as thread:
            await hear(thread, "before")
        engine = Noted(heard, assemble=lambda given: addition(given, "Be kind."))
        hooks = noting(heard)
        async with stage.thread(thread.id, engine=engine, tools=(add,), hooks=hooks) as again:
            again.observers.append(observer(heard))
            assert last(await hear(again, "go")).text == "3"
        assert heard == [
            "bootstrap",
            "maintain",
            "assemble",
            "before_prompt_build",
            "turn_start",
            "thread.started",
            "step 1",
            "function_call",
            "function_call_output",
            "step 2",
            "message",
            "commit_turn",
            "maintain",
            "turn_end",
        ]
        (assembled,) = engine.given("assemble")
        assert assembled.available_tools == {"add"}
        assert assembled.prompt == "go"
        assert assembled.model == MODEL
        assert assembled.citations == "auto"
        assert assembled.token_budget is not None
        assert [item.item.role for item in assembled.items] == ["user", "assistant", "user"]
        (committed,) = engine.given("commit_turn")
        assert [item_type(item.item) for item in committed.items[-3:]] == [
            "function_call",
            "function_call_output",
            "message",
        ]


def addition(given: Any, text: str) -> AssembleResult:
    return AssembleResult(items=given.items, system_prompt_addition=text)


async def test_hooks_see_the_prompt_and_the_instructions_that_codex_will_be_told(tmp_path):
    seen: list[BeforePromptBuild] = []

    async def look(event: BeforePromptBuild) -> None:
        seen.append(event)

    hooks = Hooks()
    hooks.on(BeforePromptBuild, look)
    engine = Probe(assemble=lambda given: addition(given, "Be kind."))
    async with open_stage(tmp_path) as stage, stage.thread(engine=engine, hooks=hooks) as thread:
        await hear(thread, "go")
        (event,) = seen
        assert event.prompt == "go"
        assert "Be kind." in event.instructions
        developer = [
            text
            for who, text in roles_and_texts(request_items(stage.requests[0]))
            if who == "developer"
        ]
        assert len([text for text in developer if "Be kind." in text]) == 1


class Powered(Tidying, Following):
    """Is told when turns are over."""


class Collecting(Tidying, Batching):
    """Takes in what turns said, all at once."""


@pytest.mark.parametrize(
    ("engine", "called"),
    [
        (Powered, ["assemble", "after_turn", "maintain"]),
        (Collecting, ["assemble", "ingest_batch", "maintain"]),
        (Tidying, ["assemble", "ingest", "ingest", "maintain"]),
    ],
    ids=["after_turn", "ingest_batch", "ingest"],
)
async def test_an_engine_takes_a_turn_in_by_what_it_has_after_it_was_mirrored(
    tmp_path, engine, called
):
    probe = engine()
    async with open_stage(tmp_path) as stage, stage.thread(engine=probe) as thread:
        await hear(thread, "go")
        assert [call for call in probe.calls if call != "bootstrap"] == called


@pytest.mark.parametrize("how", ["failed", "aborted"])
async def test_a_turn_that_failed_or_was_broken_off_advances_and_maintains_nothing(tmp_path, how):
    probe = Noted([])
    broken = (
        Answer(error=ScriptedError(status=400, message="no"))
        if how == "failed"
        else Answer(text="one two three", stall=Break(events=4))
    )
    async with open_stage(tmp_path, broken) as stage, stage.thread(engine=probe) as thread:

        def stop(event: Event) -> None:
            if isinstance(event, TextDelta):
                thread.interrupt()

        events = await hear(thread, "go", at=stop)
        assert last(events).status == ("failed" if how == "failed" else "interrupted")
        assert "commit_turn" not in probe.calls
        assert "maintain" not in probe.calls
        await hear(thread, "again")
        (committed,) = probe.given("commit_turn")
        assert [line for line in map(describe_item, committed.items) if "<" not in line] == [
            "go",
            "again",
            "fine",
        ]
        assert "maintain" in probe.calls


async def test_tools_of_an_engine_are_offered_from_the_first_turn_on(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread(engine="lossless") as thread:
        events = await hear(thread, "go")
        await hear(thread, "on")
        names = [{tool.get("name") for tool in r.payload["tools"]} for r in stage.requests]
        recall = {spec.name for spec in thread.log.setup.tools if hasattr(spec, "name")}
        assert recall
        assert recall <= names[0]
        assert names[0] == names[1]
        (report,) = of(events, HarnessReported)
        assert report.what == "thread.started"
