from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.fork_server import run
from tests.harness.scenes import call, hear, last, scripted, unpaired_calls
from treadle import Thread
from treadle.subagents import AgentLimits
from treadle.testing.script import Answer, Script
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool

from .scenes import agent_thread, announced, announcements, spawn

SCRIPT = Script(
    answers=(
        Answer(when="find it", text="thinking", calls=(call("here"),)),
        Answer(when="was here", text="found"),
        # The child's, when it was killed inside the call.
        Answer(when="Outcome unknown", text="found", times=0),
        Answer(when="start", calls=(spawn("find it", "finder"),)),
        Answer(when="agent_id", calls=(call("wait_agent", timeout_ms=3_600_000),), times=0),
        Answer(when="task_completion", text="I know", times=0),
    )
)

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import msgspec
from treadle import Rights, Thread
from treadle.store import SqliteStore
from treadle.subagents import AgentLimits
from treadle.testing.script import Script
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool

place, moment, script = Path(sys.argv[1]), sys.argv[2], sys.argv[3]


def now(name):
    if name == moment:
        os.kill(os.getpid(), signal.SIGKILL)


class Store(SqliteStore):
    async def commit(self, lease, change):
        if change.settle and not change.entries:
            now("before the order is settled")
        committed = await super().commit(lease, change)
        if any(row.topic == "agent" for row in change.outbox):
            now("after the order")
        if change.take:
            now("after the announcement is taken")
        if change.settle and not change.entries:
            now("after the order is settled")
        if change.end is not None and (await self.info(lease.thread)).title == "finder":
            now("after the end of the agent")
        return committed

    async def post(self, thread, message):
        now("before the announcement")
        posted = await super().post(thread, message)
        now("after the announcement")
        return posted


@tool
async def here() -> str:
    "Is here."
    now("in the turn of the agent")
    return "was here"


RIGHTS = Rights(sandbox="danger-full-access", approval="never")


async def main():
    store = await Store.open(place / "home")
    model = ScriptedModel(msgspec.json.decode(script, type=Script))
    async with Thread.open(model=model, store=store, home=place / "home", cwd=place / "project",
                           tools=(here,), agents=AgentLimits(), rights=RIGHTS) as thread:
        print(thread.id, flush=True)
        async for event in thread.run("start", turn_id="turn_one"):
            pass
    await model.close()
    await store.close()
    print("done", flush=True)


asyncio.run(main())
"""

MOMENTS = (
    "after the order",
    "in the turn of the agent",
    "after the end of the agent",
    "before the announcement",
    "after the announcement",
    "before the order is settled",
    "after the order is settled",
    "after the announcement is taken",
)


@tool
async def here() -> str:
    "Is here."
    return "was here"


def killed(place: Path, moment: str) -> str:
    """The thread whose process was killed at a moment."""
    for name in ("home", "project"):
        (place / name).mkdir()
    script = msgspec.json.encode(SCRIPT).decode()
    command = [sys.executable, "-c", KILLED, str(place), moment, script]
    done = run(command)
    assert done.returncode == -signal.SIGKILL
    (thread,) = done.stdout.decode().split()
    return thread


@pytest.mark.parametrize("moment", MOMENTS)
async def test_whenever_the_process_is_killed_an_agent_is_announced_once(
    tmp_path: Path, moment: str
):
    name = await asyncio.to_thread(killed, tmp_path, moment)
    model = ScriptedModel(SCRIPT)
    async with agent_thread(tmp_path, model, here, thread=name) as thread:
        end = last(await hear(thread, "start", turn_id="turn_one"))
        while await thread.expects():
            end = last(await hear(thread))
        assert end.text in ("I know", "found")
        (event,) = await announced(thread)
        assert (event.task, event.status, event.result) == ("finder", "ok", "found")
        ((child, _),) = thread.subagents.records.items()
        assert [turn.state for turn in await thread.store.turns(child)] == ["completed"]
        assert await unpaired_calls(thread) == []
        assert await thread.store.outbox() == []
        assert await thread.store.inbox(thread.id) == []
        assert len(announcements(await thread.store.read(thread.id))) == 1


async def test_an_agent_that_a_crash_cut_off_is_only_announced_where_it_should_not_go_on(
    tmp_path: Path,
):
    name = await asyncio.to_thread(killed, tmp_path, "in the turn of the agent")
    model = scripted(Answer(text="I know", times=0))
    limits = AgentLimits(resume=False)
    async with agent_thread(tmp_path, model, thread=name, limits=limits) as thread:
        assert last(await hear(thread, "well?")).text == "I know"
        (event,) = await announced(thread)
        assert (event.status, event.status_label, event.result) == (
            "unknown",
            "ended in an unknown way",
            "thinking",
        )
        assert thread.subagents.working == ()
        assert await thread.store.outbox() == []


async def test_an_agent_whose_thread_is_gone_is_announced_as_deleted(tmp_path: Path):
    name = await asyncio.to_thread(killed, tmp_path, "after the order")
    model = scripted(Answer(text="I know", times=0))
    async with agent_thread(tmp_path, model, thread=name) as thread:
        (child,) = thread.subagents.records
        await thread.store.delete(child)
        assert last(await hear(thread, "well?")).text == "I know"
        (event,) = await announced(thread)
        assert (event.status, event.result) == ("unknown", "Its thread was deleted.")
        assert await thread.store.outbox() == []


async def test_a_thread_that_may_start_no_agents_hears_of_those_it_once_started(tmp_path: Path):
    name = await asyncio.to_thread(killed, tmp_path, "after the end of the agent")
    model = scripted(Answer(text="I know", times=0))
    async with Thread.open(name, model=model, home=tmp_path / "home", tools=()) as thread:
        assert last(await hear(thread, "well?")).text == "I know"
        assert [event.result for event in await announced(thread)] == ["found"]
    await model.close()


HELD = """
import asyncio, sys
from pathlib import Path
from treadle import Rights, Thread
from treadle.subagents import AgentLimits
from treadle.testing.script import Answer, Call
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool

place = Path(sys.argv[1])


@tool
async def hold() -> str:
    "Never ends."
    print("held", flush=True)
    await asyncio.Event().wait()


async def main():
    spawn = Call(name="spawn_agent", arguments={"message": "find it", "task_name": "finder"})
    model = ScriptedModel([
        Answer(when="find it", calls=(Call(name="hold"),)),
        Answer(when="start", calls=(spawn,)),
        Answer(when="agent_id", calls=(Call(name="wait_agent", arguments={"timeout_ms": 900000}),)),
    ])
    try:
        async with Thread.open(model=model, home=place / "home", cwd=place / "project",
                               tools=(hold,), agents=AgentLimits()) as thread:
            print(thread.id, flush=True)
            async for event in thread.run("start"):
                pass
    finally:
        await model.close()


asyncio.run(main())
"""


def interrupted(place: Path) -> str:
    """The thread whose process was interrupted while it waited for an agent."""
    for name in ("home", "project"):
        (place / name).mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        thread, held = (process.stdout.readline().strip() for _ in range(2))
        assert held == "held"
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    return thread


async def test_interrupting_the_process_interrupts_and_announces_the_agent(tmp_path: Path):
    name = await asyncio.to_thread(interrupted, tmp_path)
    model = scripted(Answer(text="I know"))
    async with agent_thread(tmp_path, model, thread=name) as thread:
        assert await thread.store.outbox() == []
        (child,) = thread.subagents.records
        assert [turn.state for turn in await thread.store.turns(child)] == ["aborted"]
        assert last(await hear(thread, "well?")).text == "I know"
        (event,) = await announced(thread)
        assert (event.task, event.status_label) == ("finder", "was interrupted before it was done")
        assert await unpaired_calls(thread) == []
