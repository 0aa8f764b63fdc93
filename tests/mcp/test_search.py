from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle.config.mcp_settings import McpServerSettings
from treadle.core.entries import Epoch, Reason
from treadle.mcp.names import LONGEST_NAME, full_names
from treadle.mcp.search import ToolIndex
from treadle.mcp.server_settings import McpServer
from treadle.mcp.server_tool import ServerTool
from treadle.mcp.tool_list import read_tools
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions

from .scenes import OwnServer, outputs, servers_of, texts, thread_with, tool_names, until

MANY = [f"tool_{number:02}" for number in range(11)]


def described(name: str, text: str) -> dict[str, object]:
    return {"name": name, "description": text, "inputSchema": {"type": "object"}}


def index_of(*entries: dict[str, object]) -> ToolIndex:
    records, _ = read_tools(entries)
    server = McpServer(name="s", settings=McpServerSettings(command="x"))
    return ToolIndex([ServerTool(f"mcp__s__{each.name}", server, each, None) for each in records])  # type: ignore[arg-type]


def test_search_finds_by_words_of_names_descriptions_and_parameters():
    index = index_of(
        described("createIssue", "Opens a ticket."),
        described("list_files", "Shows what is in a directory."),
        {
            "name": "weather",
            "inputSchema": {"type": "object", "properties": {"city": {"description": "Where to"}}},
        },
    )

    def found(words: str) -> list[str]:
        return [tool.record.name for tool in index.search(words, 5)]

    assert found("create an issue") == ["createIssue"]
    assert found("ticket") == ["createIssue"]
    assert found("file directory") == ["list_files"]
    assert found("city") == ["weather"]
    assert found("mcp__s__weather") == ["weather"]
    assert found("zebra") == []


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ([("docs", "read")], ["mcp__docs__read"]),
        ([("my-docs", "a.b/c")], ["mcp__my_docs__a_b_c"]),
        ([("a", "b-c"), ("a", "b_c")], ["mcp__a__b_c_5ba2", "mcp__a__b_c_ff93"]),
        ([("a__b", "c"), ("a", "b__c")], ["mcp__a__b__c_6e25", "mcp__a__b__c_8c32"]),
    ],
)
def test_names_are_valid_and_never_the_same(tools, names):
    for order in (tools, tools[::-1]):
        found = sorted(full_names(order).values())
        assert len(set(found)) == len(tools)
        if len(tools) == 1:
            assert found == names
        else:
            assert [name[: len(names[0]) - 5] for name in found] == [each[:-5] for each in names]
            assert all(len(name) - len(names[0]) == 8 for name in found)


def test_long_names_are_cut_and_marked():
    (name,) = full_names([("server", "x" * 128)]).values()
    assert len(name) == LONGEST_NAME
    assert name.startswith("mcp__server__xxx")


async def test_from_eleven_tools_on_they_are_found_by_two_fixed_functions(tmp_path):
    server = OwnServer(tmp_path, tools=[*MANY[:-1], "echo"])
    calls = [
        Answer(calls=(call("tool_search", query="does echo"),)),
        Answer(calls=(call("tool_call", name="mcp__echo__echo", arguments={"text": "one"}),)),
        Answer(calls=(call("mcp__echo__echo", text="by its full name"),)),
        Answer(calls=(call("tool_call", name="mcp__echo__gone", arguments={}),)),
        Answer(text="done"),
    ]
    model = scripted(*calls)
    async with thread_with(tmp_path, model, server) as thread:
        await hear(thread, "go")
        first = model.requests[0].body
        assert tool_names(first) == ["tool_search", "tool_call"]
        assert "- echo: 11 tools, found with tool_search" in texts(first)
        search, one, two, gone = outputs(model.requests[-1].body)
    assert search.startswith("### mcp__echo__echo\nDoes echo.\nArguments: {")
    assert (one, two) == ("one", "by its full name")
    assert gone.startswith("there is no tool 'mcp__echo__gone'")


async def test_what_is_not_allowed_is_neither_found_nor_called_by_name(tmp_path):
    search = call("tool_search", query="echo", limit=20)
    called = call("tool_call", name="mcp__echo__echo", arguments={"text": "one"})
    model = scripted(Answer(calls=(search, called)), Answer(text="done"))
    async with servers_of(tmp_path, OwnServer(tmp_path, tools=[*MANY, "echo"])) as servers:
        tools = ToolOptions(tools=(), mcp=servers, allows=lambda name: "echo__tool" in name)
        async with open_thread(tmp_path, model, tools=tools) as thread:
            await hear(thread, "go")
    assert tool_names(model.requests[0].body) == ["tool_search", "tool_call"]
    found, said = outputs(model.requests[-1].body)
    assert "### mcp__echo__tool_00" in found
    assert "### mcp__echo__echo" not in found
    assert said.startswith("there is no tool 'mcp__echo__echo'")


async def test_lists_that_change_move_no_prefix_and_are_told(tmp_path):
    server = OwnServer(tmp_path, tools=[*MANY, "changes"])
    model = scripted(
        Answer(calls=(call("tool_call", name="mcp__echo__changes"),)),
        Answer(text="one"),
        Answer(calls=(call("tool_search", query="brand new"),)),
        Answer(text="two"),
    )
    async with thread_with(tmp_path, model, server) as thread:
        servers = thread.policy.options.tools.mcp
        assert servers is not None
        await servers.prepare()
        server.change(tools=["changes", described("brand", "A brand new one.")])
        await hear(thread, "first")
        await until(lambda: len(servers.snapshots["echo"].tools) == 2)
        await hear(thread, "second")
        bodies = [each.body for each in model.requests]
        for before, after in pairwise(bodies):
            assert after.startswith(before.removesuffix(b"]}"))
        assert "- echo: 2 tools, found with tool_search" in texts(bodies[2])
        assert outputs(bodies[-1])[-1].startswith("### mcp__echo__brand")
        entries = await thread.store.read(thread.id)
        epochs = [each.control for each in entries if each.kind == "epoch"]
        assert [each.reason for each in epochs if isinstance(each, Epoch)] == [Reason.START]


async def test_found_tools_survive_compaction_resume_and_fork(tmp_path):
    server = OwnServer(tmp_path, tools=[*MANY, described("paint", "Paints a wall.")])
    model = scripted(
        Answer(calls=(call("tool_search", query="paint wall", limit=1),)),
        Answer(text="found it"),
        Answer(text="more and " * 3000),
        Answer(text="a summary"),
        Answer(text="after"),
    )
    async with thread_with(tmp_path, model, server) as thread:
        await hear(thread, "find something that paints")
        await hear(thread, "go on")
        await thread.compact()
        await hear(thread, "and now")
        said = texts(model.requests[-1].body)
        compacted, fork = thread.id, await thread.fork()
    assert "tool_search found these tools before; tool_call calls them:" in said
    assert "### mcp__echo__paint\nPaints a wall." in said
    named = {"name": "mcp__echo__paint", "arguments": {"text": "a door"}}
    for name in (compacted, fork):
        found = scripted(Answer(calls=(call("tool_call", **named),)), Answer(text="painted"))
        async with thread_with(tmp_path, found, server, thread=name) as thread:
            await hear(thread, "paint it")
        assert found.requests[0].body.startswith(model.requests[-1].body.removesuffix(b"]}"))
        assert outputs(found.requests[-1].body)[-1] == "a door"


async def test_a_fork_knows_the_servers_of_its_parent(tmp_path):
    server = OwnServer(tmp_path, tools=MANY)
    model = scripted(Answer(text="one"), Answer(text="two"))
    async with servers_of(tmp_path, server) as servers:
        tools = ToolOptions(tools=(), mcp=servers)
        async with open_thread(tmp_path, model, tools=tools) as thread:
            await hear(thread, "first")
            sent = model.requests[0].body
            fork = await thread.fork()
        model = scripted(Answer(text="two"))
        async with open_thread(tmp_path, model, thread=fork, tools=tools) as thread:
            await hear(thread, "second")
    assert model.requests[0].body.startswith(sent.removesuffix(b"]}"))
    assert json.loads(sent)["tools"] == json.loads(model.requests[0].body)["tools"]
