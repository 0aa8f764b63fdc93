from __future__ import annotations

import json

import pytest

from tests.harness.scenes import call, hear, scripted
from treadle.mcp.mcp_errors import CallFailed
from treadle.mcp.server_prompts import fetch_prompt, prompt_names
from treadle.testing.script import Answer

from .scenes import OwnServer, outputs, servers_of, thread_with, tool_names

ABLE: dict[str, dict[str, object]] = {"resources": {}, "prompts": {}}


async def test_resources_are_listed_and_read_by_one_tool(tmp_path):
    listed = [{"uri": "note://a", "name": "a", "description": "A note.", "mimeType": "text/plain"}]
    server = OwnServer(
        tmp_path, capabilities=ABLE, resources=listed, texts={"note://a": "remember"}, tools=[]
    )
    model = scripted(
        Answer(calls=(call("mcp_resources", action="list", server="echo"),)),
        Answer(calls=(call("mcp_resources", action="read", server="echo", uri="note://a"),)),
        Answer(calls=(call("mcp_resources", action="read", server="nobody", uri="x"),)),
        Answer(text="done"),
    )
    async with thread_with(tmp_path, model, server) as thread:
        await hear(thread, "go")
        shown, read, refused = outputs(model.requests[-1].body)
    assert tool_names(model.requests[0].body) == ["mcp_resources"]
    assert shown == "- note://a (text/plain): a, A note."
    assert read == "[resource note://a]\nremember"
    assert "the MCP server 'nobody' is not available" in refused


async def test_prompts_are_commands_with_words_for_arguments(tmp_path):
    arguments = [{"name": "file", "required": True}, {"name": "focus"}]
    prompts = [{"name": "review", "description": "Reviews a file.", "arguments": arguments}]
    server = OwnServer(tmp_path, capabilities=ABLE, prompts=prompts)
    async with servers_of(tmp_path, server) as servers:
        await servers.prepare()
        ((name, (own, prompt)),) = prompt_names(servers.snapshots).items()
        assert name == "mcp__echo__review"
        said = await fetch_prompt(servers, own, prompt, "a.py names and types")
        given = {"file": "a.py", "focus": "names and types"}
        assert json.loads(said)["arguments"] == given
        with pytest.raises(CallFailed, match="wants a value for 'file'"):
            await fetch_prompt(servers, own, prompt, "")
