from __future__ import annotations

import pytest

from tests.harness.scenes import hear, open_thread, scripted
from treadle.core.specs import FunctionTool, Namespace, parameters
from treadle.hooks import Hooks
from treadle.hooks.hooks import matches
from treadle.hooks.payloads import BeforeToolCall
from treadle.testing.script import Answer, Call
from treadle.tools.contract import ToolCall, ToolContext, ToolResult


@pytest.mark.parametrize(
    ("tool", "patterns", "expected"),
    [
        ("echo", (), True),
        ("echo", ("*",), True),
        ("echo", ("echo",), True),
        ("echo", ("ech",), False),
        ("echo", ("e*o", "x"), True),
        ("echo", ("Echo",), False),
        ("mail.send", ("send",), False),
        ("mail.send", ("mail.*",), True),
        ("mail.send", ("*.send",), True),
        ("echo", ("look|echo",), True),
        ("echo", ("look | echo",), True),
        ("exec_command", ("Bash",), True),
        ("shell", ("Bash",), True),
        ("shell_command", ("Edit|Bash",), True),
        ("local_shell", ("Bash",), True),
        ("apply_patch", ("Edit",), True),
        ("apply_patch", ("Write",), True),
        ("apply_patch", ("MultiEdit",), True),
        ("apply_patch", ("Bash",), False),
        ("echo", ("Bash",), False),
        ("echo", ("[",), False),
        ("echo", ("",), False),
    ],
)
def test_patterns_are_globs_over_canonical_ids(tool, patterns, expected):
    assert matches(tool, patterns) is expected


class Mail:
    parallel = True
    spec = Namespace(
        name="mail",
        description="Mail.",
        tools=(FunctionTool(name="send", description="Sends.", parameters=parameters({})),),
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        del call, context
        return ToolResult("gone")


async def test_a_tool_of_a_namespace_is_known_by_its_full_id(tmp_path):
    hooks, heard = Hooks(), []

    async def note(event: BeforeToolCall) -> None:
        heard.append(event.tool)

    async def never(event: BeforeToolCall) -> None:
        heard.append(f"never {event.tool}")

    hooks.on(BeforeToolCall, note, tools=("mail.*",))
    hooks.on(BeforeToolCall, never, tools=("send",))
    send = Call(name="send", namespace="mail")
    model = scripted(Answer(calls=(send,)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(Mail(),), hooks=hooks) as thread:
        await hear(thread, "go")
    assert heard == ["mail.send"]
