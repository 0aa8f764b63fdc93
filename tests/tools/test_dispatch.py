# ruff: noqa: ARG002 - tools and hooks take what the Protocols say
from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from msgspec import Raw
from msgspec.structs import replace

from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
)
from treadle.core.specs import CustomTool, FunctionTool, Namespace, TextFormat, parameters
from treadle.sandbox.approvals import Ask, Decision, Once
from treadle.tools.call import Block, HookVerdict, Merge
from treadle.tools.contract import Details, ToolCall, ToolContext, ToolResult
from treadle.tools.dispatch import MOST_AT_ONCE, Dispatch, FinishedCall, tools_by_name

from .scenes import Scene


@dataclass
class Gate:
    """A tool that waits to be let through, and writes down what happens."""

    name: str
    parallel: bool
    diary: list[str]
    open: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def spec(self) -> FunctionTool:
        return FunctionTool(name=self.name, description="Waits.", parameters=parameters({}))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        self.diary.append(f"+{call.call_id}")
        try:
            await self.open.wait()
        finally:
            self.diary.append(f"-{call.call_id}")
        return ToolResult(f"did {call.call_id} {call.arguments}")


def call(name: str, call_id: str, arguments: str = "{}") -> FunctionCall:
    return FunctionCall(name=name, arguments=arguments, call_id=call_id)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def all_of(dispatch: Dispatch) -> list[FinishedCall]:
    return [finished async for finished in dispatch.results()]


@pytest.fixture
def diary() -> list[str]:
    return []


async def test_a_call_starts_before_the_step_is_complete(scene: Scene, diary: list[str]):
    look = Gate("look", True, diary)
    dispatch = Dispatch(tools_by_name([look]), scene.context)
    dispatch.submit(call("look", "a"))
    await settle()
    assert diary == ["+a"]
    look.open.set()
    finished = await anext(dispatch.results())
    assert finished.item == FunctionCallOutput(call_id="a", output="did a {}")
    dispatch.finish()
    assert await all_of(dispatch) == []


async def test_readers_share_and_a_writer_waits_for_all_before_it(scene: Scene, diary: list[str]):
    look, change = Gate("look", True, diary), Gate("change", False, diary)
    dispatch = Dispatch(tools_by_name([look, change]), scene.context)
    for name, call_id in (("look", "a"), ("look", "b"), ("change", "c"), ("look", "d")):
        dispatch.submit(call(name, call_id))
    await settle()
    assert diary == ["+a", "+b"]
    look.open.set()
    await settle()
    assert diary == ["+a", "+b", "-a", "-b", "+c"]
    change.open.set()
    await settle()
    assert diary == ["+a", "+b", "-a", "-b", "+c", "-c", "+d", "-d"]


async def test_writers_run_alone_and_in_order(scene: Scene, diary: list[str]):
    change = Gate("change", False, diary)
    change.open.set()
    dispatch = Dispatch(tools_by_name([change]), scene.context)
    for n in range(5):
        dispatch.submit(call("change", str(n)))
    dispatch.finish()
    assert [each.position for each in await all_of(dispatch)] == [0, 1, 2, 3, 4]
    assert diary == [f"{sign}{n}" for n in range(5) for sign in "+-"]


async def test_results_come_as_they_are_ready_with_their_place(scene: Scene, diary: list[str]):
    slow, quick = Gate("slow", True, diary), Gate("quick", True, diary)
    dispatch = Dispatch(tools_by_name([slow, quick]), scene.context)
    dispatch.submit(call("slow", "a"))
    dispatch.submit(call("quick", "b"))
    dispatch.finish()
    quick.open.set()
    results = dispatch.results()
    first = await anext(results)
    slow.open.set()
    second = await anext(results)
    assert [(each.position, each.call.call_id) for each in (first, second)] == [(1, "b"), (0, "a")]


async def test_the_time_for_an_approval_is_not_the_call_s(scene: Scene):
    clock = [0.0]

    @dataclass
    class Asking(Gate):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            clock[0] += 2
            await context.ask_approval(Ask(argv=("x",), cwd="/", reason="r", outside=False))
            return ToolResult("done")

    async def ask_slowly(_: Ask) -> Decision:
        clock[0] += 60
        return Once()

    context = replace(scene.context, ask_approval=ask_slowly)
    tools = tools_by_name([Asking("ask", parallel=True, diary=[])])
    dispatch = Dispatch(tools, context, clock=lambda: clock[0])
    dispatch.submit(call("ask", "c1"))
    dispatch.finish()
    assert [finished.seconds for finished in await all_of(dispatch)] == [2.0]


async def test_an_unknown_tool_is_unsupported(scene: Scene):
    dispatch = Dispatch(tools_by_name([]), scene.context)
    dispatch.submit(call("missing", "a"))
    dispatch.submit(FunctionCall(name="x", namespace="far", arguments="", call_id="b"))
    dispatch.finish()
    assert [(each.item.output, each.result.success) for each in await all_of(dispatch)] == [
        ("unsupported call: missing", False),
        ("unsupported call: far.x", False),
    ]


async def test_only_so_many_calls_run_at_once_and_all_are_answered(scene: Scene, diary: list[str]):
    gate = Gate("look", parallel=True, diary=diary)
    dispatch = Dispatch(tools_by_name([gate]), scene.context)
    for number in range(MOST_AT_ONCE + 20):
        dispatch.submit(call("look", str(number)))
    dispatch.finish()
    await settle()
    assert diary == [f"+{number}" for number in range(MOST_AT_ONCE)]
    gate.open.set()
    assert len(await all_of(dispatch)) == MOST_AT_ONCE + 20


async def test_a_freeform_call_gets_a_freeform_answer(scene: Scene):
    class Echo:
        parallel = False
        spec = CustomTool(name="echo", description="Echoes.", format=TextFormat())

        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            return ToolResult(call.arguments)

    dispatch = Dispatch(tools_by_name([Echo()]), scene.context)
    dispatch.submit(CustomToolCall(call_id="a", name="echo", input="raw text"))
    dispatch.finish()
    (finished,) = await all_of(dispatch)
    assert finished.item == CustomToolCallOutput(call_id="a", output="raw text")


async def test_a_namespace_answers_for_its_members(scene: Scene):
    member = FunctionTool(name="grep", description="Greps.", parameters=parameters({}))

    class Memory:
        parallel = True
        spec = Namespace(name="mem", description="Memory.", tools=(member,))

        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            return ToolResult(f"{call.namespace}/{call.name}")

    dispatch = Dispatch(tools_by_name([Memory()]), scene.context)
    dispatch.submit(FunctionCall(name="grep", namespace="mem", arguments="{}", call_id="a"))
    dispatch.finish()
    assert [each.item.output for each in await all_of(dispatch)] == ["mem/grep"]


class Broken:
    parallel = True
    spec = FunctionTool(name="broken", description="Breaks.", parameters=parameters({}))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        raise LookupError("no such thing")


async def test_a_tool_that_raises_answers_with_its_error(
    scene: Scene, caplog: pytest.LogCaptureFixture
):
    dispatch = Dispatch(tools_by_name([Broken()]), scene.context)
    dispatch.submit(call("broken", "a"))
    dispatch.finish()
    with caplog.at_level(logging.ERROR):
        (finished,) = await all_of(dispatch)
    assert finished.result == ToolResult(
        "broken failed: LookupError: no such thing",
        success=False,
        details=Details(status="error", error="no such thing"),
    )
    assert "broken failed" in caplog.text


async def test_an_abort_answers_every_open_call(scene: Scene, diary: list[str]):
    look, change = Gate("look", True, diary), Gate("change", False, diary)
    clock: Iterator[float] = iter([0.0] * 4 + [1.5] * 20)
    dispatch = Dispatch(tools_by_name([look, change]), scene.context, clock=clock.__next__)
    dispatch.submit(call("look", "a"))
    dispatch.submit(call("change", "b"))
    dispatch.submit(call("look", "c"))
    await settle()
    dispatch.submit(call("look", "d"))
    await dispatch.abort()
    finished = await all_of(dispatch)
    assert sorted((each.position, each.item.output) for each in finished) == [
        (position, "aborted by user after 1.5s") for position in range(4)
    ]
    assert {each.aborted for each in finished} == {True}
    assert diary == ["+a", "-a"]
    with pytest.raises(RuntimeError, match="takes no more calls"):
        dispatch.submit(call("look", "e"))


async def test_a_call_that_was_answered_is_not_aborted(scene: Scene, diary: list[str]):
    look = Gate("look", True, diary)
    look.open.set()
    dispatch = Dispatch(tools_by_name([look]), scene.context)
    dispatch.submit(call("look", "a"))
    await settle()
    await dispatch.abort()
    await dispatch.abort()
    (finished,) = await all_of(dispatch)
    assert (finished.item.output, finished.aborted) == ("did a {}", False)


@dataclass
class Hooks:
    verdict: HookVerdict = None
    suffix: str = ""
    fails: str = ""
    seen: list[tuple[str, str, bool]] = field(default_factory=list)

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        if self.fails == "before":
            raise ValueError("bad hook")
        return self.verdict

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        if self.fails == "result":
            raise ValueError("bad hook")
        return ToolResult(f"{result.output}{self.suffix}", result.success)

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        self.seen.append((call.arguments, str(result.output), seconds >= 0))
        if self.fails == "after":
            raise ValueError("bad hook")


async def hooked(scene: Scene, hooks: Hooks, item: FunctionCall | CustomToolCall) -> FinishedCall:
    gate = Gate("look", True, [])
    gate.open.set()
    dispatch = Dispatch(tools_by_name([gate]), scene.context, hooks)
    dispatch.submit(item)
    dispatch.finish()
    (finished,) = await all_of(dispatch)
    return finished


async def test_a_hook_merges_parameters(scene: Scene):
    hooks = Hooks(Merge({"b": Raw(b"2"), "c": Raw(b'"x"')}))
    finished = await hooked(scene, hooks, call("look", "a", '{"a":1,"b":1}'))
    assert finished.item.output == 'did a {"a":1,"b":2,"c":"x"}'
    assert hooks.seen == [('{"a":1,"b":2,"c":"x"}', 'did a {"a":1,"b":2,"c":"x"}', True)]


async def test_a_hook_leaves_arguments_it_cannot_read_to_the_tool(scene: Scene):
    finished = await hooked(scene, Hooks(Merge({"b": Raw(b"2")})), call("look", "a", "[broken"))
    assert finished.item.output == "did a [broken"


async def test_a_hook_replaces_the_input_of_a_freeform_call(scene: Scene):
    item = CustomToolCall(call_id="a", name="look", input="old")
    finished = await hooked(scene, Hooks(Merge({"input": Raw(b'"new"')})), item)
    assert finished.item.output == "did a new"


async def test_a_hook_blocks_with_a_reason(scene: Scene):
    hooks = Hooks(Block("not on Fridays"))
    finished = await hooked(scene, hooks, call("look", "a"))
    assert finished.result == ToolResult(
        "not on Fridays",
        success=False,
        details=Details(status="blocked", error="not on Fridays", denied_reason="before-tool-call"),
    )
    assert hooks.seen == [("{}", "not on Fridays", True)]


async def test_a_hook_changes_the_result(scene: Scene):
    finished = await hooked(scene, Hooks(suffix="!"), call("look", "a"))
    assert finished.item.output == "did a {}!"


@pytest.mark.parametrize(
    ("fails", "output"),
    [
        ("before", "look was not run: a hook failed: ValueError: bad hook"),
        ("result", "did a {}"),
        ("after", "did a {}"),
    ],
)
async def test_a_hook_that_fails_never_costs_the_result(
    scene: Scene, fails: str, output: str, caplog: pytest.LogCaptureFixture
):
    finished = await hooked(scene, Hooks(fails=fails), call("look", "a"))
    assert finished.item.output == output
    assert "bad hook" in caplog.text
