from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.scenes import log, processes, unpaired_calls
from treadle import Thread
from treadle.harness.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    HarnessReported,
    ItemCompleted,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from treadle.testing.contracts.answers import wait_until
from treadle.testing.script import Answer, Break, Call
from treadle.tools.decorator import tool

from .scenes import Stage, hear, last, of, open_stage, request_items, roles_and_texts

SLEEP = Call(
    name="exec_command",
    arguments={"cmd": "TREADLE_STUCK=yes sleep 1000", "login": False, "yield_time_ms": 30_000},
)
GOING_ON = Answer(when="go on", text="fine", times=0)
TOUCH = Call(name="exec_command", arguments={"cmd": "touch made", "login": False})


@tool(parallel=True)
async def forever() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return "never"


async def interrupted_at(thread: Thread, kind: type, *said: str) -> list[Event]:
    def stop(event: Event) -> None:
        if isinstance(event, kind):
            thread.interrupt()
            thread.interrupt()

    return await hear(thread, *said, at=stop)


async def usable(stage: Stage, thread: Thread, events: list[Event]) -> list[str]:
    """The turn is aborted and the log legal; the next turn goes on on the same Codex thread.

    What the model then reads of the interruption.
    """
    turn = await thread.store.turn(thread.id, 1)
    assert (last(events).status, turn.state) == ("interrupted", "aborted")
    assert not thread.view.open_calls
    assert await unpaired_calls(thread) == []
    assert await thread.store.outbox(thread=thread.id, topic="output") == []
    further = await hear(thread, "go on")
    assert last(further).text == "fine"
    (report,) = of(further, HarnessReported)
    assert report.what == "thread.reused"
    assert (await log(thread))[-2:] == ["user: go on", "assistant: fine"]
    told = roles_and_texts(request_items(stage.requests[-1]))
    assert told[-1] == ("user", "go on")
    assert [who for who, _ in told].count("user") == 3
    assert len([text for _, text in told if "<turn_aborted>" in text]) == 1
    return [f"{who}: {text}" for who, text in told]


@pytest.mark.parametrize("kind", [TurnStarted, HarnessReported, StepStarted])
async def test_before_the_first_word(tmp_path, kind):
    never = Answer(when="hi", text="x", stall=Break(events=0))
    async with open_stage(tmp_path, GOING_ON, never) as stage, stage.thread() as thread:
        events = await interrupted_at(thread, kind, "hi")
        assert last(events).status == "interrupted"
        assert not thread.view.open_calls
        kinds = [entry.kind for entry in await thread.store.read(thread.id)]
        assert kinds.count("request") == kinds.count("response")
        assert last(await hear(thread, "go on")).text == "fine"
        told = roles_and_texts(request_items(stage.requests[-1]))
        assert len([text for _, text in told if "<turn_aborted>" in text]) == 1
        assert [text for who, text in told if who == "user" and "<" not in text] == [
            "hi",
            "go on",
        ]


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
async def test_while_the_answer_streams(tmp_path, kind):
    slow = Answer(reasoning="hm hm", text="one two three", stall=Break(events=12))
    async with open_stage(tmp_path, slow) as stage, stage.thread() as thread:
        await usable(stage, thread, await interrupted_at(thread, kind, "hi"))


async def test_while_our_tool_runs(tmp_path):
    asked = Answer(calls=(Call(name="forever"),))
    async with open_stage(tmp_path, asked) as stage, stage.thread(tools=(forever,)) as thread:
        told = await usable(stage, thread, await interrupted_at(thread, ToolStarted, "hi"))
        assert "function_call: {}" in told


async def test_between_the_log_of_a_call_and_its_start(tmp_path):
    asked = Answer(calls=(Call(name="forever"),))
    async with open_stage(tmp_path, asked) as stage, stage.thread(tools=(forever,)) as thread:
        await usable(stage, thread, await interrupted_at(thread, ItemCompleted, "hi"))


async def test_while_codex_runs_a_command(tmp_path):
    async with open_stage(tmp_path, Answer(calls=(SLEEP,))) as stage, stage.thread() as thread:
        events = await interrupted_at(thread, ToolStarted, "hi")
        assert [(each.name, each.success) for each in of(events, ToolFinished)] == [
            ("exec_command", False)
        ]
        await usable(stage, thread, events)
        await wait_until(lambda: not processes("TREADLE_STUCK=yes"))


ASKING: dict[str, Any] = {"sandbox": "workspace-write", "approval": "untrusted"}


async def test_while_codex_asks_for_approval_the_question_is_withdrawn(tmp_path):
    async with (
        open_stage(tmp_path, Answer(calls=(TOUCH,))) as stage,
        stage.thread(**ASKING) as thread,
    ):
        events = await interrupted_at(thread, ApprovalRequested, "hi")
        (asked,) = of(events, ApprovalRequested)
        assert of(events, ApprovalWithdrawn) == [ApprovalWithdrawn(id=asked.id)]
        await usable(stage, thread, events)
        assert not (tmp_path / "project/made").exists()


async def test_leaving_the_loop_early_interrupts_the_turn(tmp_path):
    slow = Answer(text="one two three", stall=Break(events=4))
    async with open_stage(tmp_path, slow) as stage, stage.thread() as thread:
        heard = thread.run("hi")
        async for event in heard:
            if isinstance(event, TextDelta):
                break
        await heard.aclose()
        assert (await thread.store.turn(thread.id, 1)).state == "aborted"
        assert last(await hear(thread, "go on")).text == "fine"


async def test_a_command_inside_a_script_of_the_code_mode_ends_too(tmp_path):
    script = Call(
        name="exec",
        input="text(await tools.exec_command({cmd: 'TREADLE_STUCK=code sleep 1000', login: false,"
        " yield_time_ms: 30000}))",
    )
    async with (
        open_stage(tmp_path, Answer(calls=(script,))) as stage,
        stage.thread(model="openai:gpt-6.1-sol") as thread,
    ):
        events = await interrupted_at(thread, ToolStarted, "hi")
        assert last(events).status == "interrupted"
        assert await unpaired_calls(thread) == []
        await wait_until(lambda: not processes("TREADLE_STUCK=code"))
        assert last(await hear(thread, "go on")).text == "fine"
        told = [
            text
            for _, text in roles_and_texts(request_items(stage.requests[-1]))
            if "<turn_aborted>" in text
        ]
        assert len(told) == 1


async def test_what_runs_in_the_background_on_purpose_goes_on(tmp_path):
    command = "TREADLE_STUCK=background sleep 1000"
    background = Call(
        name="exec_command", arguments={"cmd": command, "login": False, "yield_time_ms": 250}
    )
    slow = Answer(text="one two three", stall=Break(events=4))
    async with (
        open_stage(tmp_path, Answer(calls=(background,)), slow) as stage,
        stage.thread() as thread,
    ):
        events = await interrupted_at(thread, TextDelta, "hi")
        assert last(events).status == "interrupted"
        assert processes("TREADLE_STUCK=background")
    await wait_until(lambda: not processes("TREADLE_STUCK=background"))
