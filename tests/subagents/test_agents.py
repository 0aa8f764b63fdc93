from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.harness.scenes import call, hear, last, log, of, scripted
from treadle.context.layout import layout
from treadle.core.items import text_of
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.harness.events import AgentReported, ToolFinished, TurnCompleted
from treadle.testing.script import Answer, ScriptedError
from treadle.tools.agents import WaitLimits, WaitResult
from treadle.tools.decorator import PythonTool

from .scenes import Gates, agent_thread, announced, announcements, listed, spawn


async def test_an_agent_works_on_its_task_and_is_announced(tmp_path: Path):
    model = scripted(
        Answer(when="find the bug", text="It is in line 3."),
        Answer(when="start", calls=(spawn("find the bug", "finder"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="task_completion", text="Line 3, then."),
    )
    async with agent_thread(tmp_path, model) as thread:
        assert last(await hear(thread, "start")).text == "Line 3, then."
        ((child, record),) = thread.subagents.records.items()
        seen = layout(thread.request(), thread.registry).replace(child, "CHILD")
        assert seen == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       start
03 call       spawn_agent({"message":"find the bug","task_name":"finder"})
04 output     spawn_agent {"agent_id":"CHILD","nic…
05 call       wait_agent({})
06 output     wait_agent {"status":{"CHILD":"comp…
07 user       <inter_session> <text> <inter_session_end> <task_completion>
08 assistant  Line 3, then.
""")
        (entry,) = announcements(await thread.store.read(thread.id))
        assert record.nickname == "finder"
        assert entry.provenance == InputProvenance(
            kind="inter_session",
            origin_thread=thread.id,
            source_thread=child,
            source_tool="subagent_announce",
            source_role="subagent",
        )
        (event,) = entry.events
        assert event == InternalEvent(
            source="subagent",
            child_thread=child,
            task="finder",
            status="ok",
            status_label="completed successfully",
            announce_type="subagent task",
            result="It is in line 3.",
            stats=event.stats,
            reply_instruction="Go on with what you were asked for, with this in mind.",
        )
        assert event.stats.endswith("out")
        assert await thread.store.outbox() == []
        assert await thread.store.inbox(thread.id) == []
        assert model.left == ()


async def test_waiting_tells_how_an_agent_is_and_only_the_announcement_what_it_found(
    tmp_path: Path,
):
    model = scripted(
        Answer(when="find it", text="a rare treasure"),
        Answer(when="start", calls=(spawn("find it", "finder"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="task_completion", calls=(call("wait_agent"), call("list_agents"))),
        Answer(text="enough"),
    )
    async with agent_thread(tmp_path, model) as thread:
        events = await hear(thread, "start")
        (child,) = thread.subagents.records
        waited = [each.output for each in of(events, ToolFinished) if each.name == "wait_agent"]
        assert waited == [
            f'{{"status":{{"{child}":"completed"}},"timed_out":false}}',
            '{"status":{},"timed_out":false}',
        ]
        assert model.requests[-1].body.count(b"a rare treasure") == 1


async def test_three_agents_work_at_once_while_their_parent_goes_on(tmp_path: Path):
    names = ("one", "two", "three")
    model = scripted(
        *(Answer(when=f"task {name}", calls=(call("hold", name=name),)) for name in names),
        *(Answer(when=f"passed {name}", text=f"{name} is done") for name in names),
        Answer(when="start", calls=tuple(spawn(f"task {name}", name) for name in names)),
        Answer(when="agent_id", text="They work."),
        Answer(when="and you?", text="I rest."),
        *(Answer(when="task_completion", text="I see.") for _ in names),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        assert last(await hear(thread, "start")).text == "They work."
        for name in names:
            await gates.reached[name].wait()
        assert await listed(thread) == [(name, "running") for name in names]
        assert last(await hear(thread, "and you?")).text == "I rest."
        for name in names:
            gates.open[name].set()
        while await thread.expects():
            assert last(await hear(thread)).text == "I see."
        results = sorted(event.result for event in await announced(thread))
        assert results == ["one is done", "three is done", "two is done"]
        assert await listed(thread) == [(name, "completed") for name in names]


async def test_what_an_agent_does_is_heard_through_its_parent(tmp_path: Path):
    model = scripted(
        Answer(when="find it", text="found"),
        Answer(when="start", calls=(spawn("find it", "finder"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="done"),
    )
    async with agent_thread(tmp_path, model) as thread:
        events = await hear(thread, "start")
        (child,) = thread.subagents.records
        reports = of(events, AgentReported)
        assert {(report.thread, report.nickname) for report in reports} == {(child, "finder")}
        (ended,) = of([report.event for report in reports], TurnCompleted)
        assert (ended.status, ended.text) == ("completed", "found")
        assert isinstance(events[-1], TurnCompleted)


async def test_an_announcement_that_comes_late_opens_the_next_turn(tmp_path: Path):
    model = scripted(
        Answer(when="find it", calls=(call("hold", name="late"),)),
        Answer(when="passed late", text="found at last"),
        Answer(when="start", calls=(spawn("find it"),)),
        Answer(when="agent_id", text="On its way."),
        Answer(when="task_completion", text="Good."),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        gates.open["late"].set()
        assert last(await hear(thread)).text == "Good."
        said = [line for line in await log(thread) if not line.startswith("call")]
        assert [line.partition(" ")[0] for line in said] == [
            "user:",
            "output",
            "assistant:",
            "assistant:",
        ]
        turns = await thread.store.turns(thread.id)
        assert [turn.state for turn in turns] == ["completed", "completed"]
        assert not await thread.expects()


async def test_an_agent_that_is_told_something_reads_it_in_its_turn(tmp_path: Path):
    model = scripted(
        Answer(when="look", calls=(call("hold", name="there"),)),
        Answer(when="also look left", text="left it is"),
        Answer(when="start", calls=(spawn("look", "scout"),)),
        Answer(when="agent_id", text="ok"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        await gates.reached["there"].wait()
        (child,) = thread.subagents.records
        await thread.subagents.send(child, "also look left")
        gates.open["there"].set()
        await thread.subagents.wait_for_mail()
        assert [turn.state for turn in await thread.store.turns(child)] == ["completed"]
        (message,) = await thread.store.inbox(thread.id)
        assert message.events[0].result == "left it is"


async def test_an_agent_at_rest_that_is_told_something_works_again(tmp_path: Path):
    model = scripted(
        Answer(when="tally up", text="one"),
        Answer(when="once more", text="two"),
        Answer(when="start", calls=(spawn("tally up", "counter"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="task_completion", text="I see."),
        Answer(when="task_completion", text="I see again."),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "start")
        (child,) = thread.subagents.records
        await thread.subagents.send(child, "once more")
        assert last(await hear(thread)).text == "I see again."
        assert [event.result for event in await announced(thread)] == ["one", "two"]
        assert [turn.state for turn in await thread.store.turns(child)] == ["completed"] * 2
        asked = [entry.provenance for entry in await thread.store.read(child) if entry.provenance]
        assert asked == [
            InputProvenance(
                kind="internal_system",
                origin_thread=thread.id,
                source_thread=thread.id,
                source_tool=tool,
            )
            for tool in ("spawn_agent", "send_input")
        ]


async def test_an_agent_can_be_told_to_do_something_else_at_once(tmp_path: Path):
    model = scripted(
        Answer(when="dig", calls=(call("hold", name="for ever"),)),
        Answer(when="swim", text="swam"),
        Answer(when="start", calls=(spawn("dig", "mole"),)),
        Answer(when="agent_id", text="ok"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        await gates.reached["for ever"].wait()
        (child,) = thread.subagents.records
        await thread.subagents.send(child, "swim", interrupt=True)
        await thread.subagents.wait_for_mail()
        turns = await thread.store.turns(child)
        assert [turn.state for turn in turns] == ["aborted", "completed"]
        (message,) = await thread.store.inbox(thread.id)
        assert [event.result for event in message.events] == ["swam"]


async def test_an_interrupted_agent_stops_and_is_announced_as_interrupted(tmp_path: Path):
    model = scripted(
        Answer(when="dig", text="digging", calls=(call("hold", name="for ever"),)),
        Answer(when="start", calls=(spawn("dig", "mole"),)),
        Answer(when="agent_id", text="ok"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        await gates.reached["for ever"].wait()
        (child,) = thread.subagents.records
        info = await thread.subagents.interrupt(child)
        assert getattr(info, "status", None) == "interrupted"
        assert [turn.state for turn in await thread.store.turns(child)] == ["aborted"]
        (message,) = await thread.store.inbox(thread.id)
        (event,) = message.events
        assert (event.status, event.status_label, event.result) == (
            "error",
            "was interrupted before it was done",
            "digging",
        )
        assert await thread.subagents.interrupt(child) == info


async def test_an_agent_whose_model_fails_is_announced_with_the_reason(tmp_path: Path):
    model = scripted(
        Answer(when="break", error=ScriptedError(status=400, message="that will not do")),
        Answer(when="start", calls=(spawn("break", "glass"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="task_completion", text="A pity."),
    )
    async with agent_thread(tmp_path, model) as thread:
        assert last(await hear(thread, "start")).text == "A pity."
        (event,) = await announced(thread)
        assert (event.status, event.status_label) == ("error", "failed")
        assert "that will not do" in event.result
        assert await listed(thread) == [("glass", "failed")]


async def test_an_agent_that_somebody_else_writes_is_announced_as_failed(tmp_path: Path):
    model = scripted(
        Answer(when="tally up", text="one"),
        Answer(when="start", calls=(spawn("tally up", "counter"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="I see."),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "start")
        (child,) = thread.subagents.records
        lease = await thread.store.acquire(child)
        await thread.subagents.send(child, "once more")
        await thread.subagents.wait_for_mail()
        await lease.release()
        (message,) = await thread.store.inbox(thread.id)
        (event,) = message.events
        assert event.status == "error"
        assert "is being written by" in event.result


async def test_a_model_speaks_with_its_agents_through_tools(tmp_path: Path):
    model = scripted(
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="start", calls=(spawn("dig", "mole", agent_type="worker"),)),
        Answer(when="agent_id", calls=(call("hold", name="parent"),)),
        Answer(text="over"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        turn = asyncio.create_task(hear(thread, "start"))
        await gates.reached["hole"].wait()
        (child,) = thread.subagents.records
        tools = {
            each.spec.name: each for each in thread.policy.tools if isinstance(each, PythonTool)
        }
        assert sorted(tools) == [
            "hold",
            "interrupt_agent",
            "list_agents",
            "send_input",
            "spawn_agent",
            "wait_agent",
        ]
        told = await tools["list_agents"]()
        assert text_of(told.output) == (
            f'{{"agents":[{{"agent_id":"{child}","nickname":"mole","agent_type":"worker",'
            '"status":"running"}]}'
        )
        unknown = await tools["send_input"](target="thr_none", message="hello")
        assert (unknown.output, unknown.success) == (
            "send_input failed: there is no agent 'thr_none'; list_agents tells which there are",
            False,
        )
        ended = await tools["interrupt_agent"](target=child)
        assert '"status":"interrupted"' in text_of(ended.output)
        gates.open["parent"].set()
        assert last(await turn).text == "over"


async def test_a_wait_ends_when_somebody_speaks_to_the_thread(tmp_path: Path):
    model = scripted(
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="start", calls=(spawn("dig", "mole"),)),
        Answer(when="agent_id", calls=(call("wait_agent", timeout_ms=3_600_000),)),
        Answer(when="never mind", text="as you like"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:

        async def steer() -> None:
            await gates.reached["hole"].wait()
            await thread.steer("never mind")

        steering = asyncio.create_task(steer())
        events = await hear(thread, "start")
        await steering
        assert last(events).text == "as you like"
        assert await listed(thread) == [("mole", "running")]


async def test_a_wait_that_nobody_ends_runs_out(tmp_path: Path):
    model = scripted(
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="start", calls=(spawn("dig", "mole"),)),
        Answer(when="agent_id", text="ok"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        (child,) = thread.subagents.records
        waited = await thread.subagents.wait((child,), 0)
        assert waited == WaitResult(status={child: "running"}, timed_out=True)


@pytest.mark.parametrize(("asked", "granted"), [(1, 10.0), (45_000, 45.0), (10**9, 3600.0)])
def test_a_wait_is_as_long_as_it_may_be(asked: int, granted: float):
    assert WaitLimits().seconds(asked) == granted
