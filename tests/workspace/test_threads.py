from __future__ import annotations

import asyncio
import os

from tests.harness.codex.scenes import open_stage
from tests.harness.scenes import call, hear, open_thread, scripted
from tests.subagents.scenes import spawn
from treadle.subagents import AgentLimits
from treadle.testing.script import Answer

from .scenes import command, open_worker, project_of, tree


async def test_what_codex_changed_comes_back(tmp_path):
    project = project_of(tmp_path)
    (project / "a").write_text("old")
    before = tree(project)
    answers = (Answer(calls=(command("echo new > a; echo new > b"),)), Answer(text="done"))
    async with open_stage(tmp_path, *answers) as stage, stage.thread() as thread:
        await hear(thread, "work")
        assert (project / "b").read_text() == "new\n"
        plan = await thread.rewinds.plan()
        assert [(each.action, each.path) for each in plan.files.changes] == [
            ("restore", "a"),
            ("remove", "b"),
        ]
        assert (await thread.rewinds.apply(plan)).left == ()
    assert tree(project) == before


async def test_what_agents_changed_comes_back_with_the_turn_that_started_them(tmp_path):
    project = project_of(tmp_path)
    (project / "a").write_text("old")
    model = scripted(
        Answer(when="write it", calls=(command("echo agent > a"),)),
        Answer(when="start", calls=(spawn("write it"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="ok"),
        Answer(text="ok"),
        Answer(text="ok"),
    )
    async with open_thread(tmp_path, model, tools=None, agents=AgentLimits()) as thread:
        await hear(thread, "start")
        while await thread.expects():
            await hear(thread)
        assert (project / "a").read_text() == "agent\n"
        plan = await thread.rewinds.plan()
        assert [(each.path, each.risky) for each in plan.files.changes] == [("a", False)]
        await thread.rewinds.apply(plan)
    assert (project / "a").read_text() == "old"


async def test_what_another_thread_may_have_changed_needs_a_yes_of_its_own(tmp_path):
    project = project_of(tmp_path)
    (project / "a").write_text("old")
    async with (
        open_worker(tmp_path, (command("echo 1 > a"),)) as first,
        open_worker(tmp_path, (command("cat gate; echo 2 > b"),)) as second,
    ):
        await asyncio.to_thread(os.mkfifo, project / "gate")
        running = asyncio.create_task(hear(second, "wait"))
        # Opened when the command of the second thread reads it.
        gate = await asyncio.to_thread((project / "gate").open, "w")
        await hear(first, "work")
        await asyncio.to_thread(gate.close)
        await running
        plan = await first.rewinds.plan()
        assert [(each.path, each.risky) for each in plan.files.changes] == [("a", True)]
        assert second.id in plan.files.changes[0].reason
