from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions

from .scenes import outputs, servers_of, tool_names, until
from .strangers import STRANGERS, Stranger, page, processes_with


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda each: each.name)
@pytest.mark.timeout(600)  # the first test of a machine fetches them
async def test_a_server_that_nobody_here_wrote_is_listed_called_and_outlived(
    tmp_path: Path, stranger: Stranger
) -> None:
    server = await asyncio.to_thread(stranger.server, tmp_path)
    tool = f"mcp__{stranger.name}__{stranger.tool}"
    async with page() as url, servers_of(tmp_path, server, direct_tools=100) as servers:
        calls = [Answer(calls=(call(tool, **stranger.arguments(tmp_path, url)),))] * 2
        model = scripted(calls[0], Answer(text="one"), calls[1], Answer(text="two"))
        options = ToolOptions(tools=(), mcp=servers)
        async with open_thread(tmp_path, model, tools=options) as thread:
            assert last(await hear(thread, "go")).status == "completed"
            first, second = (request.body for request in model.requests)
            assert tool in tool_names(first)
            assert stranger.says in str(outputs(second))
            running = list(processes_with(tmp_path))
            assert running
            for process in running:
                os.kill(process, signal.SIGKILL)
            await until(lambda: servers.connection(stranger.name).state != "ready")
            # It starts again for the next call.
            assert last(await hear(thread, "and again")).status == "completed"
            *_, again = (request.body for request in model.requests)
            assert stranger.says in str(outputs(again)[-1])
            assert again.startswith(first.removesuffix(b"]}"))
    assert list(processes_with(tmp_path)) == []
