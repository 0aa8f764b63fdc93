from __future__ import annotations

import asyncio
import json
import os
import re

import pytest

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle.core.errors import ConfigError
from treadle.prompt.prompt_context import ContextValue
from treadle.prompt.today import Today
from treadle.testing.script import Answer
from treadle.thread.options import PromptOptions

SHELLS = ["bash", "sh", "fish", "zsh"]


@pytest.mark.parametrize("name", SHELLS)
async def test_the_shell_that_is_told_is_the_one_that_runs(tmp_path, monkeypatch, name):
    shell = tmp_path / "user" / name
    shell.parent.mkdir()
    shell.write_text(f'#!/bin/sh\nSHELL_THAT_RUNS={name} exec /bin/bash "$@"\n')
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    line = "echo it is ${SHELL_THAT_RUNS:-bash}"
    run = call("exec_command", cmd=line, login=False)
    model = scripted(Answer(calls=(run,)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=None) as thread:
        await hear(thread, "which shell?")
    first, second = (request.body.decode() for request in model.requests)
    told = re.search("<shell>(.*?)</shell>", first)
    output = json.loads(second)["input"][-1]["output"]
    assert told is not None
    assert f"it is {told[1]}\n" in output
    assert told[1] == ("bash" if name == "fish" else name)


def dates(request) -> list[str]:
    return re.findall("<current_date>(.*?)</current_date>", request.body.decode())


async def test_the_day_is_told_and_told_again_when_it_changes(tmp_path):
    days = [Today("2026-11-16", "UTC"), Today("2026-11-16", "UTC"), Today("2026-11-17", "UTC")]
    days += [Today("2026-11-17", "Asia/Tokyo")]
    waiting = iter(days)
    model = scripted(Answer(text="fine", times=0))
    prompt = PromptOptions(clock=lambda: next(waiting))
    async with open_thread(tmp_path, model, prompt=prompt) as thread:
        for _ in days:
            await hear(thread, "hello")
    assert [dates(request) for request in model.requests] == [
        ["2026-11-16"],
        ["2026-11-16"],
        ["2026-11-16", "2026-11-17"],
        ["2026-11-16", "2026-11-17", "2026-11-17"],
    ]
    assert (
        "<environment_context>\\n  <shell>bash</shell>\\n"
        "  <current_date>2026-11-17</current_date>\\n  <timezone>Asia/Tokyo</timezone>\\n"
        "</environment_context>"
    ) in model.requests[-1].body.decode()


async def test_without_a_clock_no_day_is_told(tmp_path):
    model = scripted(Answer(text="fine"))
    async with open_thread(tmp_path, model, prompt=PromptOptions(clock=None)) as thread:
        await hear(thread, "hello")
    assert dates(model.requests[0]) == []


def texts(request) -> str:
    return json.dumps(json.loads(request.body)["input"])


async def test_a_turn_can_have_a_mode_a_personality_and_a_context_of_its_own(tmp_path):
    model = scripted(Answer(text="fine", times=0))
    async with open_thread(tmp_path, model) as thread:
        await hear(
            thread,
            "plan it",
            mode="plan",
            personality="Speak like a pilot.",
            context={"weather": "rain", "house": ContextValue("No shoes.", "application")},
        )
        await hear(thread, "do it")
    first, second = map(texts, model.requests)
    assert "<collaboration_mode>" in first
    assert "Plan mode is on." in first
    assert "<personality_spec>" in first
    assert "Speak like a pilot." in first
    assert "<external_weather>rain</external_weather>" in first
    assert "<house>No shoes.</house>" in first
    assert "The earlier collaboration mode has ended." in second
    assert "no longer asks for a particular manner" in second
    assert "This value was withdrawn" in second


async def test_the_model_reads_what_the_user_ran(tmp_path):
    model = scripted(Answer(text="fine", times=0))
    async with open_thread(tmp_path, model, sandbox="read-only") as thread:
        before = await thread.run_command("echo early; exit 3")
        assert (before.exit_code, before.output) == (3, "early\n")
        await hear(thread, "go")
        # The user's own command has the user's own rights.
        await thread.run_command("echo later > made.txt && cat made.txt")
        await hear(thread, "on")
        await hear(thread, "and on")
    first, second, third = map(texts, model.requests)
    assert first.count("<user_shell_command>") == 1
    assert first.index("<environment_context>") < first.index("<user_shell_command>")
    assert "Exit code: 3" in first
    assert second.count("<user_shell_command>") == third.count("<user_shell_command>") == 2
    assert "echo later > made.txt" in second
    assert (tmp_path / "project" / "made.txt").read_text() == "later\n"


async def test_a_command_of_the_user_s_that_is_broken_off_is_killed(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with open_thread(tmp_path, scripted()) as thread:
        command = f"echo $$ > {pipe}; sleep 600"
        running = asyncio.create_task(thread.run_command(command))
        number = int(await asyncio.to_thread(pipe.read_text))
        running.cancel()
        await asyncio.wait([running])
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
        assert thread.view.rows == []


async def test_a_mode_that_nobody_knows_is_refused_before_anything_is_sent(tmp_path):
    model = scripted()
    async with open_thread(tmp_path, model) as thread:
        with pytest.raises(ConfigError, match="no mode 'plann'; there are default, plan"):
            await hear(thread, "plan it", mode="plann")
    assert model.requests == []
