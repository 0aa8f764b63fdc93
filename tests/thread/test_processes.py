from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle.cli.app import treadle
from treadle.core.errors import NotFound
from treadle.testing.script import Answer


async def test_running_commands_are_listed_and_stopped(tmp_path):
    started = call("exec_command", cmd="sleep 1000", login=False, yield_time_ms=250)
    other = call("exec_command", cmd="sleep 2000; true", login=False, yield_time_ms=250)
    model = scripted(Answer(calls=(started, other)), Answer(text="both run"))
    async with open_thread(tmp_path, model, tools=None, sandbox="workspace-write") as thread:
        assert await thread.processes.list() == []
        await hear(thread, "start")
        found = await thread.processes.list()
        assert sorted(each.command for each in found) == ["sleep 1000", "sleep 2000; true"]
        assert {each.thread for each in found} == {thread.id}
        await thread.processes.stop(found[0].pid)
        assert [each.pid for each in await thread.processes.list()] == [found[1].pid]
        with pytest.raises(NotFound, match="running command"):
            await thread.processes.stop(found[0].pid)


async def test_the_command_line_stops_what_another_process_runs(tmp_path):
    started = call("exec_command", cmd="sleep 1000", login=False, yield_time_ms=250)
    model = scripted(Answer(calls=(started,)), Answer(text="it runs"))

    def run(*args: str) -> str:
        home = str(tmp_path / "home")
        done = CliRunner().invoke(treadle, ["--home", home, "processes", *args])
        assert done.exit_code == 0, done.output
        return done.output

    async with open_thread(tmp_path, model, tools=None, sandbox="workspace-write") as thread:
        await hear(thread, "start")
        listed = await asyncio.to_thread(run)
        assert thread.id in listed
        assert "sleep 1000" in listed
        assert "stopped" in await asyncio.to_thread(run, thread.id, "--stop-all")
        assert await asyncio.to_thread(run) == "no thread has a command running\n"
