from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.harness.scenes import (
    call,
    calls_answered_once,
    hear,
    last,
    log,
    of,
    open_thread,
    scripted,
)
from treadle.core.errors import CannotCompact, HookFailed
from treadle.harness.events import ToolFinished
from treadle.hooks import Hooks
from treadle.hooks.payloads import (
    AfterCompaction,
    AfterToolCall,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    Hook,
    HookAnswer,
    OnThreadStart,
    OnTurnEnd,
    OnTurnStart,
    Payload,
    ToolResultReady,
)
from treadle.testing import layout
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

EVENTS: tuple[type[Payload], ...] = (
    OnThreadStart,
    BeforePromptBuild,
    OnTurnStart,
    BeforeToolCall,
    ToolResultReady,
    AfterToolCall,
    OnTurnEnd,
    BeforeCompaction,
    AfterCompaction,
)


@tool
async def echo(text: str, times: int = 1) -> str:
    """HookAnswer it again."""
    return text * times


def saying(**fields: Any) -> Hook:
    async def hook(_: Payload) -> HookAnswer:
        return HookAnswer(**fields)

    return hook


async def failing(_: object) -> None:
    raise RuntimeError("hook out of order")


ECHO = Answer(calls=(call("echo", text="a"),))


async def test_every_event_is_told_in_its_order(tmp_path):
    hooks, told = Hooks(), []

    async def note(payload: Payload) -> None:
        told.append(type(payload).__name__)

    for event in EVENTS:
        hooks.on(event, note)
    model = scripted(ECHO, Answer(text="long " * 2_000), Answer(text="short"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        await hear(thread, "go")
        await thread.compact()
    assert told == [event.__name__ for event in EVENTS]


async def test_parameters_are_merged_in_order(tmp_path):
    hooks = Hooks()
    hooks.on(BeforeToolCall, saying(parameters={"times": 2, "text": "b"}))
    hooks.on(BeforeToolCall, saying(parameters={"times": 3}))
    hooks.on(BeforeToolCall, saying(parameters={"text": "never"}), tools=("another",))
    model = scripted(ECHO, Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
    assert of(events, ToolFinished)[0].output == "bbb"


async def test_the_first_block_wins_and_the_model_reads_why(tmp_path):
    hooks, asked = Hooks(), []

    async def note(payload: Payload) -> None:
        asked.append(payload)

    hooks.on(BeforeToolCall, saying(block="not on Sundays"))
    hooks.on(BeforeToolCall, note)
    model = scripted(ECHO, Answer(text="a pity"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
        assert await calls_answered_once(thread)
    (finished,) = of(events, ToolFinished)
    assert (finished.success, finished.output) == (False, "not on Sundays")
    assert asked == []


async def test_a_hook_that_fails_before_a_call_keeps_it_from_running(tmp_path):
    hooks = Hooks()
    hooks.on(BeforeToolCall, failing)
    model = scripted(ECHO, Answer(text="a pity"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
    (finished,) = of(events, ToolFinished)
    assert not finished.success
    assert "hook out of order" in finished.output
    assert last(events).status == "completed"


async def test_results_pass_from_one_hook_to_the_next(tmp_path):
    hooks = Hooks()

    async def louder(ready: ToolResultReady) -> HookAnswer:
        return HookAnswer(output=f"{ready.output}!")

    async def puzzled(ready: ToolResultReady) -> HookAnswer:
        return HookAnswer(output=f"{ready.output}?")

    hooks.on(ToolResultReady, louder)
    hooks.on(ToolResultReady, failing)
    hooks.on(ToolResultReady, puzzled)
    seen = []

    async def note(over: AfterToolCall) -> None:
        seen.append(over.output)

    hooks.on(AfterToolCall, note)
    model = scripted(ECHO, Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        await hear(thread, "go")
        assert (await log(thread))[2] == "output a!?"
    assert seen == ["a!?"]


async def test_hooks_that_only_listen_may_fail(tmp_path):
    hooks = Hooks()
    for event in (BeforePromptBuild, OnTurnStart, ToolResultReady, AfterToolCall, OnTurnEnd):
        hooks.on(event, failing)
    model = scripted(ECHO, Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
        assert (await log(thread))[2] == "output a"
    assert last(events).status == "completed"


async def test_context_of_hooks_is_told_behind_the_input(tmp_path):
    hooks = Hooks()
    hooks.on(BeforePromptBuild, saying(context="It is raining."))
    hooks.on(BeforePromptBuild, failing)
    hooks.on(BeforePromptBuild, saying(context="And cold."))
    async with open_thread(tmp_path, scripted(Answer(text="brr")), hooks=hooks) as thread:
        await hear(thread, "weather?")
        assert layout(thread) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       weather?
03 developer  It is raining.
04 developer  And cold.
05 assistant  brr
""")


async def test_an_input_that_a_hook_does_not_want_is_not_admitted(tmp_path):
    hooks = Hooks()
    hooks.on(BeforePromptBuild, saying(block="no secrets, please"))
    async with open_thread(tmp_path, scripted(), hooks=hooks) as thread:
        events = await hear(thread, "my password is")
        assert await thread.store.turns(thread.id) == []
    assert last(events).error == "a hook does not want this input: no secrets, please"
    assert last(events).status == "failed"


@pytest.mark.parametrize("hook", [saying(block="not now"), failing], ids=["blocks", "fails"])
async def test_a_compaction_can_be_prevented(tmp_path, hook):
    hooks = Hooks()
    hooks.on(BeforeCompaction, hook)
    model = scripted(Answer(text="long " * 2_000), Answer(text="never asked"))
    async with open_thread(tmp_path, model, hooks=hooks) as thread:
        await hear(thread, "go")
        before = thread.request().body
        with pytest.raises((CannotCompact, HookFailed), match=r"not now|hook out of order"):
            await thread.compact()
        assert thread.request().body == before
    assert len(model.requests) == 1


async def test_the_end_of_an_interrupted_turn_is_told_too(tmp_path):
    hooks, ended = Hooks(), []

    async def note(payload: OnTurnEnd) -> None:
        ended.append(payload.status)

    hooks.on(OnTurnEnd, note)
    async with open_thread(tmp_path, scripted(Answer(text="x", delay=60)), hooks=hooks) as thread:
        await hear(thread, "go", at=lambda _: thread.interrupt())
    assert ended == ["interrupted"]
