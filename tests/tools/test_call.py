from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec import Raw

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle.core.items import FunctionCall
from treadle.core.specs import spec_name
from treadle.harness.events import EvidenceFound, ToolFinished
from treadle.hooks import HookAnswer, Hooks
from treadle.hooks.payloads import AfterToolCall, BeforeToolCall, ToolResultReady
from treadle.testing.script import Answer
from treadle.tools.call import HookedTool, with_hooks
from treadle.tools.contract import (
    Details,
    Media,
    Recipient,
    SentMessage,
    Tool,
    ToolCall,
    ToolResult,
)
from treadle.tools.decorator import tool

SENT = SentMessage(
    target=Recipient(channel="telegram", to="chat:1", thread="7"),
    text="hi there",
    media=("https://example.com/a.png",),
    message_id="m-1",
)
PICTURE = Media(url="/tmp/reply.opus", as_voice=True)


class Notebook:
    """Hooks that write down what they are told, and one that answers before each call."""

    def __init__(self, before: HookAnswer | None = None, output: str | None = None) -> None:
        self.before, self.output = before, output
        self.told: list[Any] = []
        self.hooks = Hooks()
        self.hooks.on(BeforeToolCall, self._before)
        self.hooks.on(ToolResultReady, self._ready)
        self.hooks.on(AfterToolCall, self._after)

    async def _before(self, event: BeforeToolCall) -> HookAnswer | None:
        self.told.append(event)
        return self.before

    async def _ready(self, event: ToolResultReady) -> HookAnswer:
        self.told.append(event)
        return HookAnswer(output=self.output)

    async def _after(self, event: AfterToolCall) -> None:
        self.told.append(event)

    @property
    def order(self) -> list[str]:
        return [type(event).__name__ for event in self.told]

    def of(self, kind: type) -> Any:
        (event,) = [event for event in self.told if isinstance(event, kind)]
        return event


SAFE = HookAnswer(parameters={"mode": Raw(b'"safe"')})


def running(ran: list[tuple[str, str]], error: str = "") -> Tool:
    @tool
    async def run(command: str, mode: str = "wild") -> str:
        """Runs it."""
        ran.append((command, mode))
        if error:
            raise RuntimeError(error)
        return f"ran {command}"

    return run


async def turn(tmp_path: Any, notes: Notebook, tool: Tool, **arguments: Any) -> list[Any]:
    name = spec_name(tool.spec)
    model = scripted(Answer(calls=(call(name, **arguments),)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(tool,), hooks=notes.hooks) as thread:
        return await hear(thread, "go")


async def test_tool_e1_partial_parameters_are_merged_over_the_call_and_told_after_it(tmp_path):
    ran: list[tuple[str, str]] = []
    notes = Notebook(SAFE)
    await turn(tmp_path, notes, running(ran), command="pwd")
    assert ran == [("pwd", "safe")]
    assert notes.order == ["BeforeToolCall", "ToolResultReady", "AfterToolCall"]
    before, after = notes.of(BeforeToolCall), notes.of(AfterToolCall)
    assert before.arguments == '{"command":"pwd"}'
    assert after == AfterToolCall(
        thread=before.thread,
        turn=1,
        step=1,
        cwd=before.cwd,
        call_id=before.call_id,
        tool="run",
        output="ran pwd",
        success=True,
        seconds=after.seconds,
        arguments='{"command":"pwd","mode":"safe"}',
        status="ok",
    )


async def test_tool_e2_a_tool_that_raises_is_told_with_what_it_ran_with_and_its_error(tmp_path):
    ran: list[tuple[str, str]] = []
    notes = Notebook(SAFE)
    events = await turn(tmp_path, notes, running(ran, "tool failed"), command="pwd")
    (finished,) = of(events, ToolFinished)
    assert (finished.success, finished.output) == (False, "run failed: RuntimeError: tool failed")
    after = notes.of(AfterToolCall)
    assert (after.status, after.error, after.denied_reason) == ("error", "tool failed", "")
    assert after.arguments == '{"command":"pwd","mode":"safe"}'


async def test_tool_e3_what_a_tool_sent_is_told_as_it_sent_it(tmp_path):
    @tool
    async def message(text: str) -> ToolResult:
        """Sends it."""
        return ToolResult(f"sent {text}", sent=(SENT,))

    notes = Notebook()
    events = await turn(tmp_path, notes, message, text="hi there")
    (finished,) = of(events, ToolFinished)
    assert of(events, EvidenceFound) == [
        EvidenceFound(call_id=finished.call_id, name="message", sent=(SENT,))
    ]
    after = notes.of(AfterToolCall)
    assert (after.arguments, after.output) == ('{"text":"hi there"}', "sent hi there")


async def test_tool_e4_a_blocked_call_never_runs_and_is_told_with_its_own_parameters(tmp_path):
    ran: list[tuple[str, str]] = []
    notes = Notebook(HookAnswer(block="not on Sundays"))
    events = await turn(tmp_path, notes, running(ran), command="pwd")
    (finished,) = of(events, ToolFinished)
    assert ran == []
    assert (finished.success, finished.output) == (False, "not on Sundays")
    assert notes.order == ["BeforeToolCall", "AfterToolCall"]
    after = notes.of(AfterToolCall)
    assert (after.arguments, after.output) == ('{"command":"pwd"}', "not on Sundays")
    assert (after.status, after.error, after.denied_reason) == (
        "blocked",
        "not on Sundays",
        "before-tool-call",
    )


async def test_tool_c1_results_are_changed_once_between_the_call_and_what_is_told_after(tmp_path):
    ran: list[tuple[str, str]] = []
    notes = Notebook(SAFE, output="changed")
    events = await turn(tmp_path, notes, running(ran), command="pwd")
    ready, after = notes.of(ToolResultReady), notes.of(AfterToolCall)
    assert notes.order == ["BeforeToolCall", "ToolResultReady", "AfterToolCall"]
    assert (ready.arguments, ready.output) == ('{"command":"pwd","mode":"safe"}', "ran pwd")
    assert after.output == "changed"
    assert [event.output for event in of(events, ToolFinished)] == ["changed"]


async def test_tool_c4_evidence_survives_whatever_hooks_make_of_the_result(tmp_path):
    @tool
    async def message() -> ToolResult:
        """Sends it."""
        return ToolResult("sent", sent=(SENT,), media=(PICTURE,))

    notes = Notebook(output="nothing was sent")
    events = await turn(tmp_path, notes, message)
    (finished,) = of(events, ToolFinished)
    assert finished.output == "nothing was sent"
    assert of(events, EvidenceFound) == [
        EvidenceFound(call_id=finished.call_id, name="message", sent=(SENT,), media=(PICTURE,))
    ]


async def test_tool_c5_media_that_a_tool_made_is_told(tmp_path):
    @tool
    async def speak() -> ToolResult:
        """Speaks."""
        return ToolResult("spoken", media=(PICTURE,))

    events = await turn(tmp_path, Notebook(), speak)
    assert [event.media for event in of(events, EvidenceFound)] == [(PICTURE,)]


@pytest.mark.parametrize("wrapped", [1, 2])
async def test_tool_c6_a_tool_with_hooks_of_its_own_meets_them_once(tmp_path, wrapped):
    ran: list[tuple[str, str]] = []
    notes = Notebook(SAFE)
    hooked = running(ran)
    for _ in range(wrapped):
        hooked = with_hooks(hooked, notes.hooks)
    await turn(tmp_path, notes, hooked, command="pwd")
    assert ran == [("pwd", "safe")]
    assert notes.order == ["BeforeToolCall", "ToolResultReady", "AfterToolCall"]


async def test_a_hook_registered_twice_is_called_once(tmp_path):
    ran: list[tuple[str, str]] = []
    notes = Notebook(SAFE)
    notes.hooks.on(BeforeToolCall, notes._before, tools=("run",), priority=3)
    await turn(tmp_path, notes, running(ran), command="pwd")
    assert notes.order == ["BeforeToolCall", "ToolResultReady", "AfterToolCall"]


async def test_a_hooked_tool_is_otherwise_as_it_was(tmp_path):
    @tool(parallel=True, replay_safe=True)
    async def look() -> ToolResult:
        """Looks."""
        return ToolResult("seen", sent=(SENT,))

    hooked = with_hooks(look, Hooks())
    assert isinstance(hooked, HookedTool)
    assert (hooked.spec, hooked.parallel, hooked.replay_safe) == (look.spec, True, True)
    item = FunctionCall(call_id="a", name="look", arguments="{}")
    asked = ToolCall(call_id="a", name="look", item=item)
    assert hooked.abort_text(asked, 1.25) == "aborted by user after 1.2s"
    events = await turn(tmp_path, Notebook(), hooked)
    assert [event.sent for event in of(events, EvidenceFound)] == [(SENT,)]


async def test_a_later_hook_judges_what_earlier_ones_have_made_of_the_call(tmp_path):
    ran: list[tuple[str, str]] = []
    notes = Notebook(SAFE)

    async def careful(event: BeforeToolCall) -> HookAnswer | None:
        return HookAnswer(block="too safe") if '"mode":"safe"' in event.arguments else None

    notes.hooks.on(BeforeToolCall, careful, priority=-1)
    events = await turn(tmp_path, notes, running(ran), command="pwd")
    assert (ran, of(events, ToolFinished)[0].output) == ([], "too safe")


def test_a_result_says_how_its_call_went():
    results = (
        ToolResult("a"),
        ToolResult("a", success=False),
        ToolResult("a", success=False, details=Details(status="blocked")),
    )
    assert [result.status for result in results] == ["ok", "error", "blocked"]


@pytest.mark.parametrize("fails", [False, True])
async def test_half_characters_of_a_tool_do_not_end_the_turn(tmp_path, caplog, fails):
    # The error is logged as it is, and what was logged must reach whoever runs the tests.
    caplog.set_level(logging.CRITICAL, logger="treadle")

    @tool
    async def names() -> str:
        """Lists files, one of them with a name that is no UTF-8."""
        if fails:
            raise OSError("no such file: a\udcff")
        return "a\udcff \ud83d\ude00"

    async def comment(event: ToolResultReady) -> HookAnswer:
        return HookAnswer(output=f"{event.output} \ud800")

    hooks = Hooks()
    hooks.on(ToolResultReady, comment)
    model = scripted(Answer(calls=(call("names"),)), Answer(text="ok"))
    async with open_thread(tmp_path, model, tools=(names,), hooks=hooks) as thread:
        events = await hear(thread, "go")
    (finished,) = of(events, ToolFinished)
    said = "names failed: OSError: no such file: a\ufffd" if fails else "a\ufffd \U0001f600"
    assert (finished.output, last(events).status) == (f"{said} \ufffd", "completed")
