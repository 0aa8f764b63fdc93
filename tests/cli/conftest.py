from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from treadle.core.items import FunctionCall, FunctionCallOutput, Message, OutputText
from treadle.core.usage import TokenUsage
from treadle.thread.thread import Thread

from .terminal import Treadle


@pytest.fixture
def treadle(tmp_path: Path) -> Treadle:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "AGENTS.md").write_text("Keep it simple.\n")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Treadle(home, project)


@pytest.fixture
def worked(treadle: Treadle) -> str:
    """A thread with a turn of two steps, a note, a turn that was rolled back and a third."""
    return asyncio.run(work(treadle))


def answer(text: str) -> Message:
    return Message(id="msg_1", role="assistant", content=(OutputText(text=text),))


async def work(treadle: Treadle) -> str:
    async with Thread.open(
        model="openai:gpt-5.5", cwd=treadle.project, home=treadle.home
    ) as thread:
        await thread.log.turns.admit("make the test pass")
        await thread.log.requests.record(thread.request())
        call = FunctionCall(name="exec_command", arguments='{"cmd":"make test"}', call_id="c1")
        await thread.log.requests.record_answer(
            [call], usage=TokenUsage(input_tokens=2000, cached_input_tokens=0)
        )
        await thread.log.append(
            FunctionCallOutput(call_id="c1", output="\n".join(f"line {n}" for n in range(40)))
        )
        await thread.log.requests.record(thread.request())
        usage = TokenUsage(input_tokens=2100, cached_input_tokens=1900)
        await thread.log.requests.record_answer([answer("It passes.")], usage=usage)
        await thread.log.turns.finish()
        await thread.log.note("the sandbox is off", level="warning")
        await thread.log.turns.admit("delete everything")
        await thread.log.requests.record(thread.request())
        await thread.log.requests.record_answer([answer("No.")])
        await thread.log.turns.finish()
        await thread.rollback(1)
        await thread.log.turns.admit("write the changelog")
        await thread.log.requests.record(thread.request())
        await thread.log.requests.record_answer([answer("Written.")])
        await thread.log.turns.finish()
        return thread.id
