from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
from inline_snapshot import snapshot

from tests.harness.scenes import call, hear, last, log, of, open_thread, scripted
from treadle.context.layout import layout
from treadle.context.request import Renderer
from treadle.context.view import load_view
from treadle.harness.events import AgentReported, ApprovalRequested, Event, ToolFinished
from treadle.sandbox.approvals import No, Once
from treadle.subagents import AgentLimits, Lineage, lineage_of
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions
from treadle.tools.agents import AgentInfo, AgentRefusal, SpawnRequest, WaitResult

from .scenes import Gates, agent_thread, announced, listed, rights, spawn


def outputs(events: list[Event], name: str) -> list[str]:
    return [each.output for each in of(events, ToolFinished) if each.name == name]


async def test_without_limits_a_model_gets_no_tools_for_agents(tmp_path: Path):
    async with open_thread(tmp_path, scripted()) as thread:
        assert thread.log.setup.tools == ()
        refused = await thread.subagents.spawn(SpawnRequest(message="dig"))
        assert isinstance(refused, AgentRefusal)


async def test_agents_start_no_agents_of_their_own_by_default(tmp_path: Path):
    model = scripted(
        Answer(when="dig deep", calls=(spawn("dig deeper"),)),
        Answer(when="unsupported call", text="alone then"),
        Answer(when="start", calls=(spawn("dig deep"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="ok"),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "start")
        assert [event.result for event in await announced(thread)] == ["alone then"]
        assert len(await thread.store.threads()) == 2


async def test_with_a_depth_of_two_an_agent_has_agents_that_have_none(tmp_path: Path):
    model = scripted(
        Answer(when="dig deep", calls=(spawn("go on digging", "second"),)),
        Answer(when="go on digging", calls=(spawn("still more"),)),
        Answer(when="unsupported call", text="rock bottom"),
        Answer(when='nickname":"second', calls=(call("wait_agent"),)),
        Answer(when="rock bottom", text="it is rock"),
        Answer(when="start", calls=(spawn("dig deep", "first"),)),
        Answer(when='nickname":"first', calls=(call("wait_agent"),)),
        Answer(when="it is rock", text="I see"),
    )
    async with agent_thread(tmp_path, model, limits=AgentLimits(depth=2)) as thread:
        events = await hear(thread, "start")
        assert last(events).text == "I see"
        generations = {
            (report.thread, report.event.thread)
            for report in of(events, AgentReported)
            if isinstance(report.event, AgentReported)
        }
        ((child, grandchild),) = generations
        depths = []
        for id_ in (thread.id, child, grandchild):
            view = await load_view(thread.store, id_, thread.registry)
            lineage = lineage_of(view.settings, id_)
            depths.append((lineage and lineage.depth, view.cache_key))
        assert depths == [
            (None, thread.id),
            (1, f"{thread.id}/default"),
            (2, f"{thread.id}/default"),
        ]


async def test_no_more_agents_work_at_a_time_than_may(tmp_path: Path):
    model = scripted(
        Answer(when="dig", calls=(call("hold", name="hole"),), times=0),
        Answer(when="passed hole", text="dug", times=0),
        Answer(when="start", calls=tuple(spawn(f"dig {n}", f"mole {n}") for n in (1, 2, 3))),
        Answer(when="agent_id", text="ok"),
    )
    gates = Gates()
    async with agent_thread(
        tmp_path, model, gates.tool, limits=AgentLimits(concurrent=2)
    ) as thread:
        events = await hear(thread, "start")
        assert outputs(events, "spawn_agent")[2] == snapshot(
            "spawn_agent failed: 2 agents are at work and no more may be; "
            "wait for one with wait_agent, or interrupt one"
        )
        assert await listed(thread) == [("mole 1", "running"), ("mole 2", "running")]
        gates.open["hole"].set()
        while thread.subagents.working:
            await thread.subagents.wait((), 60)
        again = await thread.subagents.spawn(SpawnRequest(message="dig 4"))
        assert isinstance(again, AgentInfo)
        assert again.nickname == "agent 3"


async def test_an_agent_has_the_rights_of_its_parent_and_follows_when_they_shrink(tmp_path: Path):
    model = scripted(
        Answer(when="look", calls=(call("rights"),)),
        Answer(when="may workspace-write", calls=(call("hold", name="there"),)),
        Answer(when="passed there", calls=(call("rights"),)),
        Answer(when="may read-only", text="less"),
        Answer(when="start", calls=(spawn("look"),)),
        Answer(when="agent_id", text="ok"),
        Answer(when="careful", calls=(call("hold", name="parent"),)),
        Answer(when="passed parent", text="over"),
    )
    gates = Gates()
    async with agent_thread(
        tmp_path,
        model,
        gates.tool,
        rights,
        sandbox="workspace-write",
        approval="untrusted",
        writable_roots=("/srv/shared",),
        network=True,
    ) as thread:
        await hear(thread, "start")
        await gates.reached["there"].wait()
        assert thread.log.setup.settings is not None
        thread.log.setup.settings = msgspec.structs.replace(
            thread.log.setup.settings, sandbox_mode="read-only", approval_policy="never"
        )
        turn = asyncio.create_task(hear(thread, "careful"))
        await gates.reached["parent"].wait()
        gates.open["there"].set()
        (child,) = thread.subagents.records
        await thread.subagents.wait((child,), 60)
        gates.open["parent"].set()
        await turn
        entries = [entry for entry in await thread.store.read(child) if entry.kind == "item"]
        told = [json.loads(entry.body).get("output") for entry in entries]
        assert [each for each in told if each and not each.startswith("passed")] == [
            "may workspace-write ('/srv/shared',) True untrusted",
            "may read-only ('/srv/shared',) True never",
        ]


async def test_what_an_agent_wants_approved_is_asked_and_answered_through_its_parent(
    tmp_path: Path,
):
    run = call("exec_command", cmd="touch made", login=False)
    model = scripted(
        Answer(when="make it", calls=(run,)),
        Answer(when="Process exited with code 0", text="made"),
        Answer(when="make another", calls=(run,)),
        Answer(when="rejected by user: enough", text="refused"),
        Answer(when="start", calls=(spawn("make it", "maker"), spawn("make another", "second"))),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="task_completion", text="I see", times=0),
    )
    asked: list[AgentReported] = []
    async with agent_thread(tmp_path, model, tools=None, approval="untrusted") as thread:

        def decide(event: Event) -> None:
            if isinstance(event, AgentReported) and isinstance(event.event, ApprovalRequested):
                asked.append(event)
                yes = event.nickname == "maker"
                thread.answer(event.event.id, Once() if yes else No("enough"))

        await hear(thread, "start", at=decide)
        while await thread.expects():
            await hear(thread, at=decide)
        results = {event.task: event.result for event in await announced(thread)}
        assert results == {"maker": "made", "second": "refused"}
        assert {(each.thread, each.nickname) for each in asked} == {
            (child, record.nickname) for child, record in thread.subagents.records.items()
        }
        assert (tmp_path / "project" / "made").exists()


async def test_a_question_that_came_while_nobody_listened_is_put_when_somebody_does(
    tmp_path: Path,
):
    model = scripted(
        Answer(when="make it", calls=(call("hold", name="first"),)),
        Answer(when="passed first", calls=(call("exec_command", cmd="touch made", login=False),)),
        Answer(when="Process exited with code 0", text="made"),
        Answer(when="start", calls=(spawn("make it", "maker"),)),
        Answer(when="agent_id", text="on its way"),
        Answer(when="task_completion", text="I see"),
    )
    gates = Gates()
    seen = asyncio.Event()
    async with agent_thread(tmp_path, model, tools=None, approval="untrusted") as thread:
        tools = ToolOptions(tools=(*thread.policy.tools[:-5], gates.tool))
        thread.policy.options = thread.policy.options.with_changes(tools=tools)
        thread.policy.offer_tools()
        thread.observers.append(
            lambda event: (
                seen.set()
                if isinstance(event, AgentReported) and isinstance(event.event, ApprovalRequested)
                else None
            )
        )
        await hear(thread, "start")
        gates.open["first"].set()
        await seen.wait()

        def yes(event: Event) -> None:
            if isinstance(event, AgentReported) and isinstance(event.event, ApprovalRequested):
                thread.answer(event.event.id, Once())

        assert last(await hear(thread, at=yes)).text == "I see"
        assert [event.result for event in await announced(thread)] == ["made"]


async def test_a_forked_agent_knows_the_conversation_and_shares_its_prefix(tmp_path: Path):
    model = scripted(
        Answer(when="the word is plum", text="noted"),
        Answer(when="what is the word?", text="plum"),
        Answer(when="start", calls=(spawn("what is the word?", "fork", fork_context=True),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="task_completion", text="plum indeed"),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "the word is plum")
        assert last(await hear(thread, "start")).text == "plum indeed"
        (child,) = thread.subagents.records
        view = await load_view(thread.store, child, thread.registry)
        assert layout(Renderer().render(view), thread.registry) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       the word is plum
03 assistant  noted
04 user       start
05 user       what is the word?
06 assistant  plum
""")
        bodies = [json.loads(request.body) for request in model.requests]
        (asked,) = [body for body in bodies if "what is the word?" in str(body["input"][-1])]
        parent = bodies[1]
        assert {name: asked[name] for name in asked if name != "input"} == {
            name: parent[name] for name in parent if name != "input"
        }
        assert asked["input"][: len(parent["input"])] == parent["input"]
        assert (await thread.store.info(child)).parent == thread.id


async def test_a_forked_agent_has_tools_for_agents_that_refuse(tmp_path: Path):
    model = scripted(
        Answer(when="go deep", calls=(spawn("deeper"),)),
        Answer(when="spawn_agent failed", text="not here"),
        Answer(when="start", calls=(spawn("go deep", fork_context=True),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="ok"),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "start")
        assert [event.result for event in await announced(thread)] == ["not here"]


async def test_an_agent_knows_where_it_comes_from(tmp_path: Path):
    model = scripted(
        Answer(when="look", text="seen"),
        Answer(when="start", calls=(spawn("look", "scout", agent_type="explorer"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="ok"),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "start")
        (child,) = thread.subagents.records
        view = await load_view(thread.store, child, thread.registry)
        assert lineage_of(view.settings, child) == Lineage(
            thread=child,
            parent=thread.id,
            depth=1,
            nickname="scout",
            agent_type="explorer",
        )
        assert view.cache_key == f"{thread.id}/explorer"
        keys = {json.loads(request.body)["prompt_cache_key"] for request in model.requests}
        assert keys == {thread.id, f"{thread.id}/explorer"}
        fork = await thread.store.fork(child, view.upto)
        assert lineage_of(view.settings, fork.id) is None


async def test_the_model_is_told_which_agents_there_are_when_that_changes(tmp_path: Path):
    model = scripted(
        Answer(when="look", text="seen"),
        Answer(when="start", calls=(spawn("look", "scout"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="ok", times=0),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "start")
        await hear(thread, "and?")
        await hear(thread, "well?")
        (child,) = thread.subagents.records
        told = [
            entry.body.decode()
            for entry in await thread.store.read(thread.id)
            if any(mark.id == "subagents" for mark in entry.fragments)
        ]
        assert len(told) == 1
        assert f"<subagents>\\n- {child}: scout\\n</subagents>" in told[0]


async def test_agents_that_were_started_in_a_turn_that_is_rolled_back_are_forgotten(
    tmp_path: Path,
):
    model = scripted(
        Answer(when="look", text="seen"),
        Answer(when="start", calls=(spawn("look", "scout"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="ok", times=0),
    )
    async with agent_thread(tmp_path, model) as thread:
        await hear(thread, "start")
        await thread.rollback()
        assert thread.subagents.records == {}
        await hear(thread, "and?")
        assert "scout" not in str(await log(thread))[-200:]


async def test_an_agent_at_work_whose_turn_is_rolled_back_is_waited_for_and_announced(
    tmp_path: Path,
):
    model = scripted(
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="passed hole", text="dug"),
        Answer(when="start", calls=(spawn("dig", "mole"),)),
        Answer(when="agent_id", text="ok"),
        Answer(when="task_completion", text="I see"),
    )
    gates = Gates()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        (child,) = thread.subagents.records
        await gates.reached["hole"].wait()
        await thread.rollback()
        assert thread.subagents.records == {}
        gates.open["hole"].set()
        waited = await thread.subagents.wait((), 60)
        assert waited == WaitResult(status={child: "completed"}, timed_out=False)
        assert last(await hear(thread)).text == "I see"


async def test_closing_a_thread_interrupts_its_agents_and_leaves_nothing_running(tmp_path: Path):
    names = ("one", "two")
    model = scripted(
        *(Answer(when=f"dig {name}", calls=(call("hold", name=name),)) for name in names),
        Answer(when="start", calls=tuple(spawn(f"dig {name}", name) for name in names)),
        Answer(when="agent_id", text="ok"),
    )
    gates = Gates()
    before = asyncio.all_tasks()
    async with agent_thread(tmp_path, model, gates.tool) as thread:
        await hear(thread, "start")
        for each in names:
            await gates.reached[each].wait()
        name = thread.id
    assert asyncio.all_tasks() == before
    model = scripted(Answer(when="well?", text="they were interrupted"))
    async with agent_thread(tmp_path, model, gates.tool, thread=name) as thread:
        assert await thread.store.outbox() == []
        assert await listed(thread) == [("one", "interrupted"), ("two", "interrupted")]
        assert last(await hear(thread, "well?")).text == "they were interrupted"
        told = [(event.task, event.status) for event in await announced(thread)]
        assert sorted(told) == [
            ("one", "error"),
            ("two", "error"),
        ]
