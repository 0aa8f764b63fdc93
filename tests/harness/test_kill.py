from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import fork_server
from treadle.testing.contracts.answers import wait_until
from treadle.testing.script import Answer

from .scenes import hear, last, log, open_thread, processes, scripted, unpaired_calls

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "30"))
IN_A_ROW = 5
"""Rounds that go on with one thread."""

CHILD = """
import asyncio, sys
from pathlib import Path
from treadle import Rights, Thread
from treadle.harness.events import ItemCompleted
from treadle.testing.script import Answer, Call, Script
from treadle.testing.scripted import ScriptedModel

place, thread, mark = Path(sys.argv[1]), sys.argv[2] or None, sys.argv[3]


def run(cmd, wait):
    arguments = {"cmd": cmd, "yield_time_ms": wait, "login": False}
    return Call(name="exec_command", arguments=arguments)


RIGHTS = Rights(sandbox="workspace-write", approval="never")
WORKING = Answer(
    reasoning="on and on",
    text="working",
    calls=(
        run(f"echo slow; sleep 300.{mark}", 300),
        run("echo fast", 1000),
        run(f"(sleep 301.{mark} &) ; sleep 0.1; echo done", 1000),
    ),
)


async def main():
    model = ScriptedModel(Script(answers=(WORKING,), loop=True))
    try:
        async with Thread.open(thread, model=model, home=place / "home", cwd=place / "project",
                               rights=RIGHTS) as opened:
            print(opened.id, flush=True)
            async for event in opened.run("work"):
                if isinstance(event, ItemCompleted):
                    print(event.seq, flush=True)
    finally:
        await model.close()


asyncio.run(main())
"""


class Round(NamedTuple):
    """A turn that was ended at some moment."""

    thread: str
    acknowledged: int
    """The last entry that it said was there."""
    signal: signal.Signals


def broken_off(
    place: Path, thread: str, mark: str, chance: random.Random, *, at_work: bool
) -> Round:
    """A turn that goes on with `thread` and is ended, if need be not before commands run."""
    how = chance.choice([signal.SIGKILL, signal.SIGINT])
    command = [sys.executable, "-c", CHILD, str(place), thread, mark]
    with fork_server.Process(command, stderr=subprocess.PIPE) as child:
        name = child.stdout.readline().decode().strip()
        told = [child.stdout.readline() for _ in range(chance.randrange(12))]
        time.sleep(chance.uniform(0, 0.1))
        while at_work and not processes(f".{mark}"):
            time.sleep(0.01)
        child.send_signal(how)
        told += child.stdout.readlines()
        assert child.wait() == -how
    last_told = max((int(line) for line in told if line.endswith(b"\n")), default=0)
    return Round(name, last_told, how)


@pytest.mark.parametrize("row", range(-(-ROUNDS // IN_A_ROW)))
async def test_whatever_the_moment_nothing_is_lost_and_nothing_is_left(tmp_path: Path, row: int):
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    chance, mark = random.Random(row), f"{os.getpid()}{row:03}"
    thread = ""
    for turn in range(IN_A_ROW):
        ended = await asyncio.to_thread(
            broken_off, tmp_path, thread, mark, chance, at_work=turn == IN_A_ROW - 1
        )
        assert thread in ("", ended.thread)
        thread = ended.thread
        await wait_until(lambda: not processes(f".{mark}"))
        await can_go_on(tmp_path, ended)


async def can_go_on(place: Path, ended: Round) -> None:
    """What the next start finds is legal, whole, and can be gone on with."""
    model = scripted(Answer(text="going on"))
    async with open_thread(
        place, model, thread=ended.thread, tools=None, sandbox="workspace-write"
    ) as thread:
        entries = await thread.store.read(thread.id)
        assert ended.acknowledged <= len(entries)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        turns = await thread.store.turns(thread.id)
        if ended.signal == signal.SIGINT and ended.acknowledged:
            assert turns[-1].state == "aborted"
        assert last(await hear(thread, "go on")).text == "going on"
        assert not thread.view.open_calls
        assert await unpaired_calls(thread) == []
        assert await thread.store.outbox(thread=thread.id) == []


SLOW_AND_FAST = """
import asyncio, sys
from pathlib import Path
from treadle import Thread
from treadle.harness.events import ToolFinished
from treadle.testing.script import Answer, Call
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool


@tool(parallel=True)
async def slow() -> str:
    "Never ends."
    await asyncio.Event().wait()


@tool(parallel=True)
async def fast() -> str:
    "Ends at once."
    return "fast as ever"


async def main(place):
    model = ScriptedModel([Answer(calls=(Call(name="slow"), Call(name="fast")))])
    async with Thread.open(model=model, home=place / "home", cwd=place / "project",
                           tools=(slow, fast)) as thread:
        async for event in thread.run("go"):
            if isinstance(event, ToolFinished):
                print(thread.id, flush=True)


asyncio.run(main(Path(sys.argv[1])))
"""


def killed_between_two_results(place: Path) -> str:
    for name in ("home", "project"):
        (place / name).mkdir()
    command = [sys.executable, "-c", SLOW_AND_FAST, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        thread = child.stdout.readline().strip()
        child.kill()
    return thread


async def test_a_result_that_waited_for_an_earlier_one_survives_a_kill(tmp_path: Path):
    name = await asyncio.to_thread(killed_between_two_results, tmp_path)
    model = scripted(Answer(text="I see."))
    async with open_thread(tmp_path, model, thread=name) as thread:
        assert last(await hear(thread, "well?")).text == "I see."
        assert await log(thread) == [
            "user: go",
            "call slow",
            "call fast",
            "output Outcome unknown: the run ended before this call reported. It may have run.",
            "output fast as ever",
            "user: well?",
            "assistant: I see.",
        ]
        assert await thread.store.outbox(thread=name) == []
