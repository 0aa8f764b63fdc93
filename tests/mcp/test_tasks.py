from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.harness.scenes import call, hear, log, scripted
from treadle.mcp.pending import find_task, pending_text
from treadle.testing.script import Answer

from .scenes import OwnServer, outputs, thread_with, until

WORKING = {"taskId": "t-1", "status": "working", "pollIntervalMs": 20}
RESULT = {"content": [{"type": "text", "text": "the real outcome"}], "resultType": "complete"}
DONE: dict[str, Any] = {"taskId": "t-1", "status": "completed", "result": RESULT}


def test_a_task_is_found_again_in_the_words_that_stand_for_it():
    for task in ("t-1", 'with "quotes" and \\ and \n'):
        assert find_task(pending_text("docs", task)) == ("docs", task)
    assert find_task("what a server said of " + pending_text("docs", "t")) is None


async def test_a_task_is_followed_to_its_end(tmp_path):
    server = OwnServer(tmp_path, tools=["task"], modern=True, task=WORKING)
    model = scripted(Answer(calls=(call("mcp__echo__task"),)), Answer(text="done"))
    async with thread_with(tmp_path, model, server) as thread:

        async def finish(event: object) -> None:
            if type(event).__name__ == "ToolStarted":
                server.change(task=DONE)

        await hear(thread, "go", at=finish)
        assert outputs(model.requests[-1].body) == ["the real outcome"]


async def test_a_task_that_fails_is_a_line(tmp_path):
    failed = {"taskId": "t-1", "status": "failed", "error": {"code": 1, "message": "no disk"}}
    server = OwnServer(tmp_path, tools=["task"], modern=True, task=failed)
    model = scripted(Answer(calls=(call("mcp__echo__task"),)), Answer(text="done"))
    async with thread_with(tmp_path, model, server) as thread:
        await hear(thread, "go")
        (said,) = outputs(model.requests[-1].body)
    assert said.endswith("the MCP server 'echo' says: the task was failed: no disk")


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.harness.scenes import call, hear, scripted
from tests.mcp.scenes import OwnServer, thread_with
from treadle.log.staging import staged_outputs
from treadle.testing.script import Answer

async def main():
    place = Path(sys.argv[1])
    server = OwnServer(place, tools=["task"], modern=True, task=%r)
    model = scripted(Answer(calls=(call("mcp__echo__task"),)))
    async with thread_with(place, model, server) as thread:
        turn = asyncio.create_task(hear(thread, "go"))
        while not await staged_outputs(thread.store, thread.id):
            await asyncio.sleep(0.02)
        (place / "thread").write_text(thread.id)
        await turn

asyncio.run(main())
"""


async def test_after_a_crash_the_real_outcome_of_a_task_is_fetched(tmp_path):
    root = Path(__file__).parents[2]
    told = tmp_path / "thread"
    with subprocess.Popen([sys.executable, "-c", KILLED % WORKING, tmp_path], cwd=root) as ours:  # noqa: ASYNC220
        await until(told.exists)
        await until(lambda: bool(told.read_text()))
        ours.send_signal(signal.SIGKILL)
    server = OwnServer(tmp_path, tools=["task"], modern=True, task=DONE)
    model = scripted(Answer(text="good"))
    async with thread_with(tmp_path, model, server, thread=told.read_text()) as thread:
        await hear(thread, "what came of it?")
        assert outputs(model.requests[-1].body) == ["the real outcome"]
        assert "output the real outcome" in "\n".join(await log(thread))
