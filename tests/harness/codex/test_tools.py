from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from msgspec import Raw

from tests.harness.scenes import log, outline, unpaired_calls
from treadle.core.entries import Origin
from treadle.core.items import InputImage, InputText, decode_item, item_type
from treadle.core.specs import (
    CustomTool,
    FunctionTool,
    Namespace,
    TextFormat,
    WebSearchTool,
    parameters,
)
from treadle.harness.events import (
    Event,
    ItemCompleted,
    NoticeRaised,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from treadle.hooks import Hooks
from treadle.hooks.payloads import AfterToolCall, BeforeToolCall, HookAnswer, ToolResultReady
from treadle.log.staging import TOPIC
from treadle.subagents import AgentLimits
from treadle.testing.script import Answer, Call
from treadle.thread.stored_bytes import StoredBytes
from treadle.tools.call_text import call_text
from treadle.tools.contract import ToolCall, ToolContext, ToolResult
from treadle.tools.decorator import tool
from treadle.tools.stored_output import open_output, read_range

from .scenes import Stage, hear, last, of, open_stage, request_items

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDw"
    "ADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CODE_MODE = "openai:gpt-6.1-sol"


class Free:
    """A freeform tool."""

    spec = CustomTool(name="free", description="Takes text.", format=TextFormat())
    parallel = True

    async def run(self, call: ToolCall, _: ToolContext) -> ToolResult:
        return ToolResult(f"free got {call.arguments}")


class Memory:
    """Two tools under one name."""

    spec = Namespace(
        name="mem",
        description="Memory.",
        tools=(
            FunctionTool(
                name="grep",
                description="Finds.",
                parameters=parameters({"q": {"type": "string"}}),
            ),
            CustomTool(name="note", description="Notes.", format=TextFormat()),
        ),
    )
    parallel = True

    async def run(self, call: ToolCall, _: ToolContext) -> ToolResult:
        return ToolResult(f"{call.namespace}.{call.name} got {call.arguments}")


@tool(parallel=True)
async def add(a: int, b: int) -> str:
    """Adds."""
    return str(a + b)


@tool(parallel=True)
async def picture() -> tuple[InputText | InputImage, ...]:
    """Draws."""
    return (InputText("look"), InputImage(PIXEL))


@tool(parallel=True)
async def broken() -> str:
    """Fails."""
    raise ValueError("no luck")


OURS = (Free(), Memory(), add, picture, broken)


def results(stage: Stage) -> list[Any]:
    """The outputs that the model was shown with the newest request."""
    return [item["output"] for item in request_items(stage.requests[-1]) if "output" in item]


def call(name: str, namespace: str | None = None, /, **arguments: object) -> Call:
    return Call(name=name, namespace=namespace, arguments=arguments)


async def test_our_tools_are_offered_beside_those_of_codex(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread(tools=OURS) as thread:
        await hear(thread, "go")
        offered = {
            tool["name"]: tool for tool in stage.requests[0].payload["tools"] if "name" in tool
        }
        assert {"free", "mem", "add", "picture", "broken", "exec_command"} <= set(offered)
        assert offered["add"]["parameters"]["required"] == ["a", "b"]
        assert [each["name"] for each in offered["mem"]["tools"]] == ["grep", "note"]


async def test_functions_freeform_tools_and_namespaces_get_what_the_model_wrote(tmp_path):
    calls = (
        call("add", a=1, b=2),
        call("free", input="raw text"),
        call("grep", "mem", q="x"),
        call("note", "mem", input="y"),
        call("broken"),
        call("nobody"),
        call("add", a="one"),
    )
    async with (
        open_stage(tmp_path, Answer(calls=calls), Answer(text="done")) as stage,
        stage.thread(tools=OURS) as thread,
    ):
        events = await hear(thread, "go")
        (one, two, three, four, five, six, seven) = results(stage)
        assert (one, two, three, four) == (
            "3",
            "free got raw text",
            'mem.grep got {"q":"x"}',
            "mem.note got y",
        )
        assert five == "broken failed: ValueError: no luck"
        assert six == "unsupported call: nobody"
        assert "add" in seven
        assert sorted((event.name, event.success) for event in of(events, ToolFinished)) == [
            ("add", False),
            ("add", True),
            ("broken", False),
            ("free", True),
            ("grep", True),
            ("note", True),
        ]
        assert await unpaired_calls(thread) == []
        assert last(events).text == "done"


async def test_each_call_of_an_answer_has_its_result_where_codex_has_it(tmp_path):
    calls = tuple(call("add", a=number, b=1) for number in range(4))
    async with (
        open_stage(tmp_path, Answer(calls=calls), Answer(text="done")) as stage,
        stage.thread(tools=OURS) as thread,
    ):
        await hear(thread, "go")
        lines = await log(thread)
        assert lines[:5] == ["user: go", *["call add"] * 4]
        assert sorted(lines[5:9]) == [f"output {number + 1}" for number in range(4)]
        assert lines[5:9] == [f"output {output}" for output in results(stage)]


async def test_a_call_is_durable_before_it_runs_and_its_result_before_codex_hears_of_it(tmp_path):
    seen: list[str] = []

    @tool(parallel=True)
    async def look() -> str:
        """Looks at the log."""
        seen.extend(await log(thread))
        return "seen"

    def staged_results(event: Event) -> None:
        if isinstance(event, ToolFinished):
            with sqlite3.connect(tmp_path / "treadle/log.db") as database:
                (count,) = database.execute(
                    "SELECT count(*) FROM outbox WHERE topic = ?", (TOPIC,)
                ).fetchone()
            database.close()
            seen.append(f"{count} staged, {len(stage.requests)} asked")

    async with (
        open_stage(tmp_path, Answer(calls=(call("look"),)), Answer(text="done")) as stage,
        stage.thread(tools=(look,)) as thread,
    ):
        thread.observers.append(staged_results)
        await hear(thread, "go")
        assert seen == ["user: go", "call look", "1 staged, 1 asked"]
        assert await thread.store.outbox(thread=thread.id, topic=TOPIC) == []


async def test_hooks_see_block_and_change_the_calls_of_our_tools(tmp_path):
    heard: list[str] = []
    hooks = Hooks()

    async def before(event: BeforeToolCall) -> HookAnswer | None:
        heard.append(f"before {event.tool} {event.arguments}")
        return (
            HookAnswer(block="not today")
            if event.tool == "free"
            else HookAnswer(parameters={"b": Raw(b"40")})
        )

    async def ready(event: ToolResultReady) -> HookAnswer:
        return HookAnswer(output=f"<{event.output}>")

    async def after(event: AfterToolCall) -> None:
        heard.append(f"after {event.tool} {event.output}")

    hooks.on(BeforeToolCall, before)
    hooks.on(ToolResultReady, ready)
    hooks.on(AfterToolCall, after)
    calls = (call("add", a=1, b=2), call("free", input="raw"))
    async with (
        open_stage(tmp_path, Answer(calls=calls), Answer(text="done")) as stage,
        stage.thread(tools=OURS, hooks=hooks) as thread,
    ):
        await hear(thread, "go")
        assert sorted(results(stage)) == ["<41>", "not today"]
        assert sorted(heard) == [
            "after add <41>",
            "after free not today",
            'before add {"a":1,"b":2}',
            "before free raw",
        ]


async def test_images_of_a_result_reach_the_model(tmp_path):
    async with (
        open_stage(tmp_path, Answer(calls=(call("picture"),)), Answer(text="done")) as stage,
        stage.thread(tools=OURS) as thread,
    ):
        await hear(thread, "go")
        (output,) = results(stage)
        assert [part["type"] for part in output] == ["input_text", "input_image"]
        assert output[1]["image_url"] == PIXEL


async def test_what_is_too_long_for_the_model_is_kept_whole(tmp_path):
    text = "".join(f"{number:08}\n" for number in range(20_000))

    @tool(parallel=True)
    async def long() -> str:
        """Says much."""
        return text

    async with (
        open_stage(tmp_path, Answer(calls=(call("long"),)), Answer(text="done")) as stage,
        stage.thread(tools=(long,)) as thread,
    ):
        await hear(thread, "go")
        (output,) = results(stage)
        assert output in [line.removeprefix("output ") for line in await log(thread)]
        handle = output.rpartition("Full output: ")[2].split()[0]
        kept = StoredBytes(thread.store, thread.id)
        assert await read_range(kept, await open_output(kept, handle), 0, 1 << 20) == text.encode()


async def test_scripts_of_the_code_mode_call_our_tools_without_items_of_their_own(tmp_path):
    script = Call(
        name="exec",
        input="const r = await tools.add({a: 1, b: 2}); text(r);"
        "text(await tools.free({input: 'raw'})); text(await tools.mem__note({input: 'n'}));",
    )
    async with (
        open_stage(tmp_path, Answer(calls=(script,)), Answer(text="done")) as stage,
        stage.thread(tools=OURS, model=CODE_MODE) as thread,
    ):
        events = await hear(thread, "go")
        assert [event.name for event in of(events, ToolStarted)] == ["add", "free", "note"]
        assert [event.output for event in of(events, ToolFinished)] == [
            "3",
            "free got raw",
            "mem.note got n",
        ]
        lines = await log(thread)
        assert lines[:2] == ["user: go", "call exec"]
        assert lines[2].endswith("3\nfree got raw\nmem.note got n")
        assert lines[3:] == ["assistant: done"]
        assert await thread.store.outbox(thread=thread.id, topic=TOPIC) == []


async def test_commands_of_codex_are_mirrored_and_told_as_they_run(tmp_path):
    command = call("exec_command", cmd="sleep 0.5; echo hello", login=False)
    async with (
        open_stage(tmp_path, Answer(calls=(command,)), Answer(text="done")) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "go")
        assert outline(of(events, ToolStarted, ToolProgress, ToolFinished)) == [
            "exec_command started",
            "progress hello\n",
            "exec_command finished: hello\n",
        ]
        items = [decode_item(event.item) for event in of(events, ItemCompleted)]
        assert list(map(item_type, items)) == ["function_call", "function_call_output", "message"]
        (started,) = of(events, ToolStarted)
        assert started.call_id == getattr(items[0], "call_id", None)
        (output,) = results(stage)
        assert output.endswith("Output:\nhello\n")
        assert f"output {output}" in await log(thread)


async def test_a_command_that_fails_is_told_as_a_failure(tmp_path):
    command = call("exec_command", cmd="exit 3", login=False)
    async with (
        open_stage(tmp_path, Answer(calls=(command,)), Answer(text="done")) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "go")
        assert [event.success for event in of(events, ToolFinished)] == [False]
        assert last(events).status == "completed"


async def test_patches_of_codex_are_mirrored_and_applied(tmp_path):
    patch = Call(
        name="apply_patch",
        input="*** Begin Patch\n*** Add File: hello.txt\n+hi\n*** End Patch\n",
    )
    async with (
        open_stage(tmp_path, Answer(calls=(patch,)), Answer(text="done")) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "go")
        (started,) = of(events, ToolStarted)
        assert started.name == "apply_patch"
        said = call_text(started.name, started.arguments)
        assert said == f"patch {tmp_path / 'project/hello.txt'}"
        assert [event.success for event in of(events, ToolFinished)] == [True]
        assert (tmp_path / "project/hello.txt").read_text() == "hi\n"
        assert (await log(thread))[1] == "call apply_patch"


async def test_what_is_mirrored_says_that_it_comes_from_codex(tmp_path):
    command = call("exec_command", cmd="true", login=False)
    async with (
        open_stage(tmp_path, Answer(calls=(command,)), Answer(text="done")) as stage,
        stage.thread() as thread,
    ):
        await hear(thread, "go")
        entries = [e for e in await thread.store.read(thread.id) if e.kind == "item" and e.origin]
        assert len(entries) == 3
        for entry in entries:
            assert isinstance(entry.origin, Origin)
            assert (entry.origin.harness, entry.origin.model) == ("codex", "gpt-5.5")


async def test_a_tool_that_only_a_provider_runs_is_not_offered_and_the_user_told(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread(tools=(WebSearchTool(), add)) as thread:
        events = await hear(thread, "go")
        assert [event.text for event in of(events, NoticeRaised)] == [
            "the tool 'web_search' runs at a provider only and is not offered on Codex"
        ]
        names = [tool.get("name") for tool in stage.requests[0].payload["tools"]]
        assert "add" in names


@pytest.mark.parametrize("tools", [None, ()], ids=["builtin", "none"])
async def test_the_built_in_tools_are_not_offered_beside_those_of_codex(tmp_path, tools):
    async with open_stage(tmp_path) as stage, stage.thread(tools=tools) as thread:
        await hear(thread, "go")
        names = [tool.get("name") for tool in stage.requests[0].payload["tools"]]
        assert names.count("exec_command") == 1
        assert "update_plan" not in names
        assert thread.log.setup.tools == ()


@pytest.mark.parametrize("agents", [AgentLimits(), None], ids=["ours", "none"])
async def test_codex_s_own_agents_are_not_offered_beside_ours(tmp_path, agents):
    async with open_stage(tmp_path) as stage:
        async with stage.thread(model=CODE_MODE, agents=agents) as thread:
            await hear(thread, "go")
        body = stage.requests[0].body.decode()
        assert body.count("spawn_agent(args: ") == (1 if agents else 0)
        assert '"name":"collaboration"' not in body


@tool
async def shout() -> str:
    """Shouts."""
    return "".join(f"{number}\n" for number in range(1, 20_000))


async def test_the_user_s_limit_of_outputs_holds_for_codex_s_commands_and_ours(tmp_path):
    count = call("exec_command", cmd="seq 1 19999", login=False, max_output_tokens=30_000)
    work = Answer(calls=(count, call("shout")))
    sizes: list[list[int]] = []
    name = None
    async with open_stage(tmp_path, work, Answer(text="a"), work, Answer(text="b")) as stage:
        for limit in (30_000, 500):
            async with stage.thread(name, tools=(shout,), output_limit=limit) as thread:
                name = thread.id
                await hear(thread, "go")
                sizes.append([len(output) for output in results(stage)[-2:]])
                written = [line for line in await log(thread) if line.startswith("output ")]
                assert written[-2:] == [f"output {output}" for output in results(stage)[-2:]]
    # Five characters and a line end for most of 19,999 numbers; and four bytes a token.
    assert [size > 100_000 for size in sizes[0]] == [True, True]
    assert [size < 500 * 4 * 1.3 for size in sizes[1]] == [True, True]
