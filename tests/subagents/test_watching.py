from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import pytest

from tests.harness.scenes import call, hear, last, of, scripted
from treadle.core.errors import LeaseLost
from treadle.engines.values import EndReason
from treadle.harness.events import ToolFinished
from treadle.sandbox.policy import SandboxPolicy
from treadle.subagents import SharedExecutor
from treadle.testing.script import Answer
from treadle.tools.agents import SpawnRequest
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.local.local_executor import LocalExecutor
from treadle.tools.local.process import LocalProcess

from .scenes import Gates, agent_thread, spawn


class Watcher:
    """Remembers what it was told; may object to agents."""

    def __init__(self, objection: str = "") -> None:
        self.heard: list[tuple[str, str]] = []
        self.objection = objection

    async def prepare_spawn(
        self, child: str, mode: Literal["isolated", "fork"]
    ) -> Callable[[], Awaitable[None]]:
        if self.objection:
            raise RuntimeError(self.objection)
        self.heard.append((child, mode))

        async def undo() -> None:
            self.heard.append((child, "undone"))

        return undo

    async def on_subagent_ended(self, child: str, reason: EndReason) -> None:
        self.heard.append((child, reason))
        raise RuntimeError("who only watches")


STARTING = (
    Answer(when="hello", text="hi"),
    Answer(when="look", text="seen"),
    Answer(when="agent_id", calls=(call("wait_agent"),)),
)


@pytest.mark.parametrize(("fork", "mode"), [(False, "isolated"), (True, "fork")])
async def test_a_watcher_hears_of_an_agent_before_it_starts_and_when_it_is_done(
    tmp_path: Path, fork: bool, mode: str
):
    model = scripted(
        *STARTING,
        Answer(when="start", calls=(spawn("look", fork_context=fork),)),
        Answer(text="ok"),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "hello")
        thread.subagents.watcher = watcher = Watcher()
        await hear(thread, "start")
        (child,) = thread.subagents.records
        assert watcher.heard == [(child, mode), (child, "completed")]


async def test_an_agent_that_a_watcher_cannot_prepare_for_does_not_start(tmp_path: Path):
    model = scripted(
        *STARTING, Answer(when="start", calls=(spawn("look"),)), Answer(text="then not")
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "hello")
        thread.subagents.watcher = Watcher("no room for another")
        (call_,) = of(await hear(thread, "start"), ToolFinished)
        assert (call_.success, call_.output) == (
            False,
            "spawn_agent failed: RuntimeError: no room for another",
        )
        assert thread.subagents.records == {}
        assert [info.id for info in await thread.store.threads()] == [thread.id]
        assert await thread.store.outbox(topic="agent") == []


async def test_what_was_prepared_is_undone_when_the_order_cannot_be_recorded(tmp_path: Path):
    async with agent_thread(tmp_path, scripted(Answer(when="hello", text="hi"))) as thread:
        await hear(thread, "hello")
        thread.subagents.watcher = watcher = Watcher()
        await thread.log.lease.release()
        with pytest.raises(LeaseLost):
            await thread.subagents.spawn(SpawnRequest(message="look"))
        assert [what for _, what in watcher.heard] == ["isolated", "undone"]
        assert [info.id for info in await thread.store.threads()] == [thread.id]
        assert thread.subagents.working == ()


async def test_agents_of_a_thread_that_is_closed_are_released(tmp_path: Path):
    model = scripted(
        Answer(when="hello", text="hi"),
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="start", calls=(spawn("dig"),)),
        Answer(when="agent_id", text="ok"),
    )
    gates, watcher = Gates(), Watcher()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "hello")
        thread.subagents.watcher = watcher
        await hear(thread, "start")
        await gates.reached["hole"].wait()
        (child,) = thread.subagents.records
    assert watcher.heard == [(child, "isolated"), (child, "released")]


async def test_a_lent_executor_ends_what_was_started_through_it_and_nothing_else(tmp_path: Path):
    bounds = Bounds(policy=SandboxPolicy(mode="danger-full-access"), workspace=tmp_path)
    spec = ProcessSpec(argv=("cat",), cwd=tmp_path, bounds=bounds, tty=True)
    executor = LocalExecutor(home=tmp_path)
    shared = SharedExecutor(executor)
    try:
        own, theirs = await executor.start(spec), await shared.start(spec)
        await shared.write(tmp_path / "note", b"kept", bounds=bounds)
        assert await executor.read(tmp_path / "note", bounds=bounds) == b"kept"
        await shared.close()
        assert await theirs.wait() != 0
        await own.write(b"still here\n")
        async for data in own.output():
            assert data.startswith(b"still here")
            break
    finally:
        await executor.close()


class Recording(LocalExecutor):
    """Remembers for which threads it worked, and how often it was closed."""

    def __init__(self, home: Path) -> None:
        super().__init__(home=home)
        self.threads: list[str] = []
        self.closed = 0

    async def start(self, spec: ProcessSpec) -> LocalProcess:
        self.threads.append(spec.thread)
        return await super().start(spec)

    async def close(self) -> None:
        self.closed += 1
        await super().close()


async def test_agents_act_through_the_executor_of_the_host_and_leave_it_open(tmp_path: Path):
    run = call("exec_command", cmd="echo here", login=False)
    model = scripted(
        Answer(when="run it", calls=(run,)),
        Answer(when="Process exited", text="ran"),
        Answer(when="start", calls=(spawn("run it"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="task_completion", calls=(run,)),
        Answer(text="I ran it too"),
    )
    executor = Recording(tmp_path)
    async with agent_thread(tmp_path, model, tools=None, executor=executor) as thread:
        assert last(await hear(thread, "start")).text == "I ran it too"
        (child,) = thread.subagents.records
        assert (executor.threads, executor.closed) == ([child, thread.id], 0)
    assert executor.closed == 1
