from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.scenes import call, hear, last, of, open_thread, processes, scripted
from treadle.core.errors import ConfigError, HookFailed
from treadle.harness.events import ToolFinished
from treadle.hooks import CommandHook, HookAnswer, Hooks
from treadle.hooks.hooks import call_hook
from treadle.hooks.payloads import (
    RULES,
    AfterCompaction,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    HookRule,
    OnThreadStart,
    OnTurnEnd,
    OnTurnStart,
    Payload,
    ToolResultReady,
)
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

STARTED = OnTurnStart(thread="t", turn="u", model="m")


@tool
async def echo(text: str) -> str:
    """HookAnswer it again."""
    return text


async def forever(_: Payload) -> None:
    await asyncio.Event().wait()


def test_who_decides_fails_closed_and_who_only_looks_runs_beside_others():
    closed = {event.__name__ for event, rule in RULES.items() if rule.closed}
    together = {event.__name__ for event, rule in RULES.items() if rule.together}
    assert closed == {"BeforeToolCall", "BeforeCompaction"}
    assert together == {"AfterToolCall", "AfterCompaction", "OnTurnStart", "OnTurnEnd"}
    assert RULES[BeforeToolCall] == HookRule(seconds=15, closed=True)
    assert RULES[BeforePromptBuild] == HookRule(seconds=15)
    assert RULES[OnTurnEnd] == HookRule(seconds=30, together=True)


async def test_a_hook_that_hangs_before_a_call_keeps_it_from_running(tmp_path):
    hooks = Hooks()
    hooks.on(BeforeToolCall, forever, timeout=0.05)
    model = scripted(Answer(calls=(call("echo", text="a"),)), Answer(text="a pity"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
    (finished,) = of(events, ToolFinished)
    assert not finished.success
    assert finished.output == (
        "echo was not run: a hook failed: a hook for 'before_tool_call' did not answer "
        "within 0.05 s"
    )
    assert last(events).status == "completed"


@pytest.mark.parametrize("output", [5, {"a": 1}, ["a"], b"a"])
async def test_a_result_of_another_type_is_left_out(tmp_path, output, caplog):
    async def nonsense(_: Payload) -> HookAnswer:
        return HookAnswer(output=output)

    hooks = Hooks()
    hooks.on(ToolResultReady, nonsense)
    model = scripted(Answer(calls=(call("echo", text="a"),)), Answer(text="fine"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
    assert [each.output for each in of(events, ToolFinished)] == ["a"]
    assert last(events).status == "completed"
    assert f"answered 'output' of type {type(output).__name__!r}, not a text" in caplog.text


@pytest.mark.parametrize("fields", [{"block": 5}, {"parameters": [1]}, {"parameters": None}])
async def test_an_answer_of_another_type_before_a_call_keeps_it_from_running(
    tmp_path, fields: dict[str, Any]
):
    async def nonsense(_: Payload) -> HookAnswer:
        return HookAnswer(**fields)

    hooks = Hooks()
    hooks.on(BeforeToolCall, nonsense)
    model = scripted(Answer(calls=(call("echo", text="a"),)), Answer(text="a pity"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        (finished,) = of(await hear(thread, "go"), ToolFinished)
    assert finished.output.startswith("echo was not run: a hook failed: ")


async def test_a_hook_that_hangs_elsewhere_is_logged_and_left_out(tmp_path, caplog):
    hooks = Hooks()
    for event in (OnThreadStart, BeforePromptBuild, OnTurnStart, OnTurnEnd):
        hooks.on(event, forever, timeout=0.05)
    async with open_thread(tmp_path, scripted(Answer(text="hello")), hooks=hooks) as thread:
        assert last(await hear(thread, "go")).text == "hello"
    assert caplog.text.count("did not answer within 0.05 s; it is left out") == 4


async def test_a_hook_whose_time_is_up_is_cancelled():
    ended: list[str] = []

    async def tidy(_: Payload) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("tidied")

    hooks = Hooks()
    hooks.on(OnTurnStart, tidy, timeout=0.01)
    with pytest.raises(HookFailed, match=r"did not answer within 0\.01 s"):
        await hooks.ask(STARTED)
    assert ended == ["tidied"]


async def test_whoever_breaks_off_a_hook_waits_for_its_tidying():
    ended, begun = [], asyncio.Event()

    async def tidy(_: Payload) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("tidied")

    hooks = Hooks()
    hooks.on(OnTurnStart, tidy)
    task = asyncio.create_task(hooks.notify(STARTED))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["tidied"]


async def test_a_hook_that_will_not_be_cancelled_is_left_to_itself():
    release = asyncio.Event()

    async def stubborn(_: Payload) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(HookFailed, match="did not answer"):
        await call_hook(stubborn, STARTED, 0.01, grace=0.01)
    release.set()
    await asyncio.sleep(0)


async def test_a_command_whose_time_is_up_is_gone_with_its_whole_group():
    hooks = Hooks()
    script = "sleep 543219 & sleep 543218"
    hooks.on(OnTurnStart, CommandHook(("/bin/sh", "-c", script)), timeout=0.3)
    with pytest.raises(HookFailed, match="did not answer"):
        await hooks.ask(STARTED)
    assert processes("54321") == []


async def test_a_hook_that_cancels_itself_has_failed_and_cancels_nobody_else():
    async def desert(_: Payload) -> None:
        raise asyncio.CancelledError

    hooks = Hooks()
    hooks.on(OnTurnStart, desert)
    with pytest.raises(HookFailed, match="gave up"):
        await hooks.ask(STARTED)


async def test_what_is_no_answer_is_a_failure():
    async def chatty(_: Payload) -> Any:
        return {"block": "no"}

    hooks = Hooks()
    hooks.on(OnTurnStart, chatty)
    with pytest.raises(HookFailed, match="answered 'dict'; return a HookAnswer or None"):
        await hooks.ask(STARTED)


@pytest.mark.parametrize("seconds", [0, -1, 600.5])
def test_no_hook_gets_more_than_ten_minutes_or_no_time_at_all(seconds):
    with pytest.raises(ConfigError, match="more than 0 and at most 600"):
        Hooks().on(OnTurnStart, forever, timeout=seconds)


async def test_the_highest_priority_comes_first_then_the_order_of_registration():
    hooks, heard = Hooks(), []

    def named(name: str) -> Any:
        async def hook(_: Payload) -> None:
            heard.append(name)

        return hook

    for name, priority in (("c", 0), ("a", 5), ("d", 0), ("e", -1), ("b", 5)):
        hooks.on(BeforePromptBuild, named(name), priority=priority)
    await hooks.notify(BeforePromptBuild(thread="t", cwd="/", model="m", prompt="p"))
    assert heard == ["a", "b", "c", "d", "e"]


async def test_hooks_that_only_look_run_beside_each_other():
    hooks, met = Hooks(), asyncio.Barrier(2)

    async def one(_: Payload) -> None:
        await met.wait()

    async def other(_: Payload) -> None:
        await met.wait()

    hooks.on(OnTurnStart, one, timeout=60)
    hooks.on(OnTurnStart, other, timeout=60)
    assert await hooks.notify(STARTED) == []
    assert met.n_waiting == 0


async def test_hooks_that_may_change_an_input_run_one_after_the_other():
    hooks, order = Hooks(), []

    async def slow(_: Payload) -> HookAnswer:
        order.append("slow begins")
        await asyncio.sleep(0.01)
        order.append("slow ends")
        return HookAnswer(context="slow")

    async def quick(_: Payload) -> HookAnswer:
        order.append("quick")
        return HookAnswer(context="quick")

    hooks.on(BeforePromptBuild, slow)
    hooks.on(BeforePromptBuild, quick)
    asked = BeforePromptBuild(thread="t", cwd="/", model="m", prompt="p")
    assert await hooks.notify(asked) == [HookAnswer(context="slow"), HookAnswer(context="quick")]
    assert order == ["slow begins", "slow ends", "quick"]


async def test_a_thread_starts_once_in_a_process_and_again_when_it_was_compacted(tmp_path):
    heard: list[str] = []

    async def note(event: OnThreadStart) -> None:
        heard.append(event.source)

    first = Hooks()
    first.on(OnThreadStart, note)
    answers = (Answer(text="long " * 2_000), Answer(text="short"), Answer(text="b"))
    async with open_thread(tmp_path, scripted(*answers), hooks=first) as thread:
        await hear(thread, "go")
        await thread.compact()
        await hear(thread, "go on")
    second = Hooks()
    second.on(OnThreadStart, note)
    model = scripted(Answer(text="c"), Answer(text="d"))
    async with open_thread(tmp_path, model, thread=thread.id, hooks=second) as thread:
        await hear(thread, "again")
        await hear(thread, "and again")
    assert heard == ["startup", "compact", "resume"]


async def test_a_start_whose_input_was_not_admitted_is_told_again():
    hooks, wanted = Hooks(), iter([HookAnswer(block="no"), None])

    async def greet(_: Payload) -> HookAnswer:
        return HookAnswer(context="welcome")

    async def choosy(_: Payload) -> HookAnswer | None:
        return next(wanted)

    hooks.on(OnThreadStart, greet)
    hooks.on(BeforePromptBuild, choosy)
    asked = BeforePromptBuild(thread="t", cwd="/", model="m", prompt="p")
    assert await hooks.before_prompt(asked) == [
        HookAnswer(context="welcome"),
        HookAnswer(block="no"),
    ]
    assert await hooks.before_prompt(asked) == [HookAnswer(context="welcome")]


async def test_a_compaction_that_a_harness_decides_on_is_only_told(caplog):
    hooks = Hooks()
    hooks.on(BeforeCompaction, forever, timeout=0.01)
    hooks.on(AfterCompaction, forever, timeout=0.01)
    told = await hooks.notify(BeforeCompaction(thread="t", tokens=1, trigger="auto"))
    after = await hooks.notify(AfterCompaction(thread="t", tokens_before=2, tokens_after=1))
    assert (told, after) == ([], [])
    assert caplog.text.count("it is left out") == 2
