"""Conversations with agents that a thread starts."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from .basics import weigh
from .drive import AgentLimits, Stage, agents_of, call, says, tool


class Gates:
    """Where agents wait until a conversation lets them go on."""

    def __init__(self) -> None:
        self.reached: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.open: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

        @tool(parallel=True)
        async def hold(name: str) -> str:
            "Waits at a gate."
            self.reached[name].set()
            await self.open[name].wait()
            return f"passed {name}"

        self.tool = hold


def spawn(message: str, name: str, **how: Any) -> Any:
    """A call that starts an agent."""
    return call("spawn_agent", message=message, task_name=name, **how)


async def an_agent_of_its_own(stage: Stage) -> None:
    """An agent that knows only its task, uses a tool and is announced."""
    model = stage.model(
        says("", call("weigh", what="the bug"), when="find the bug"),
        says("It is in line 3.", when="weighs"),
        says("", spawn("find the bug", "finder", agent_type="explorer"), when="start"),
        says("", call("wait_agent"), when="agent_id"),
        says("", call("list_agents"), when="task_completion"),
        says("Line 3, then.", when='"agents"'),
        says("Bye.", when="thanks"),
    )
    async with stage.thread(model, tools=(weigh,), agents=AgentLimits()) as thread:
        await stage.turn(thread, "start")
        await stage.turn(thread, "thanks")


async def an_agent_that_is_a_fork(stage: Stage) -> None:
    """An agent that knows the conversation so far."""
    model = stage.model(
        says("The word is heron.", when="remember"),
        says("The word was heron.", when="say the word"),
        says("", spawn("say the word", "speaker", fork_context=True), when="start"),
        says("", call("wait_agent"), when="agent_id"),
        says("Heron.", when="task_completion"),
        says("Bye.", when="thanks"),
    )
    async with stage.thread(model, tools=(weigh,), agents=AgentLimits()) as thread:
        await stage.turn(thread, "remember: heron")
        await stage.turn(thread, "start")
        await stage.turn(thread, "thanks")


async def agents_that_are_late(stage: Stage) -> None:
    """Two agents that outlive the turn that started them; each opens a turn by itself."""
    gates, names = Gates(), ("one", "two")
    model = stage.model(
        *(says("", call("hold", name=name), when=f"task {name}") for name in names),
        *(says(f"{name} is done", when=f"passed {name}") for name in names),
        says("", *(spawn(f"task {name}", name) for name in names), when="start"),
        says("They work.", when="agent_id"),
        says("I see one.", when="one is done"),
        says("I see two.", when="two is done"),
    )
    async with stage.thread(model, tools=(gates.tool,), agents=AgentLimits()) as thread:
        await stage.turn(thread, "start")
        for name in names:
            await gates.reached[name].wait()
        for name in names:
            gates.open[name].set()
            await stage.turn(thread)


async def an_agent_that_is_asked_again(stage: Stage) -> None:
    """An agent that is done gets more to do, after its parent was opened again; one fails."""
    limits = AgentLimits()
    model = stage.model(
        says("found", when="find it"),
        says("", spawn("find it", "finder"), when="start"),
        says("", call("wait_agent"), when="agent_id"),
        says("Good.", when="task_completion"),
    )
    async with stage.thread(model, tools=(), agents=limits) as thread:
        await stage.turn(thread, "start")
        (child,) = agents_of(thread)
    model = stage.model(
        says("", error=stage.refusal("no more"), when="and the other"),
        says("", call("send_input", target=child, message="and the other"), when="go on"),
        says("", call("wait_agent", targets=[child]), when="submission_id"),
        says("", call("interrupt_agent", target="thr_nobody"), when="task_completion"),
        says("Alas.", when="interrupt_agent failed"),
    )
    async with stage.thread(model, thread.id, tools=(), agents=limits) as thread:
        await stage.turn(thread, "go on")
