"""The same servers on the Codex harness, with the real binary."""

from __future__ import annotations

from typing import Any

from tests.harness.codex.scenes import hear, open_stage, request_items
from treadle.testing.script import Answer, Call
from treadle.thread.options import ToolOptions

from .scenes import OwnServer, servers_of


def results(body: Any) -> list[Any]:
    return [item["output"] for item in request_items(body) if "output" in item]


async def test_servers_reach_the_model_once_by_search_and_calls_go_our_way(tmp_path):
    found = Call(
        name="tool_call", arguments={"name": "mcp__echo__echo", "arguments": {"text": "x"}}
    )
    server = OwnServer(tmp_path, tools=["echo"])
    search = Call(name="tool_search", arguments={"query": "echo"})
    async with (
        servers_of(tmp_path, server) as servers,
        open_stage(
            tmp_path, Answer(calls=(search,)), Answer(calls=(found,)), Answer(text="done")
        ) as stage,
        stage.thread(tools=ToolOptions(mcp=servers)) as thread,
    ):
        await hear(thread, "go")
        offered = [each.get("name", "") for each in stage.requests[0].payload["tools"]]
        assert [name for name in offered if "tool_" in name] == ["tool_search", "tool_call"]
        assert "echo: 1 tool, found with tool_search" in stage.requests[0].body.decode()
        first, second = results(stage.requests[-1])
        assert first.startswith("### mcp__echo__echo")
        assert second == "x"
