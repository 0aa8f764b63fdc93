"""`/agents`: the kinds of agents that files define, and the agents of this thread.

Invariant: an agent of a project's file starts only after the user has seen and trusted it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...config.trusted_files import TrustStore
from ...core.choices import near_hint
from ...subagents.agent_files import find_agent_files
from ...tools.agents import AgentRefusal, SpawnRequest
from .prompt_trust import trusts_prompt

if TYPE_CHECKING:
    from ...subagents.agent_files import AgentFile
    from .slash import Slash

__all__ = ["agent_words", "use_agents"]


async def use_agents(slash: Slash, rest: str) -> None:
    """List kinds and agents, show a kind, or start an agent with a task."""
    name, _, task = rest.partition(" ")
    files = await asyncio.to_thread(_files, slash)
    if not name:
        await _list(slash, files)
        return
    screen = slash.session.screen
    file = files.get(name)
    if file is None:
        hint = near_hint(name, files) or "/agents lists them"
        screen.trouble(f"no file defines the agent {name!r}; {hint.strip()}")
    elif file.problem:
        screen.trouble(f"{file.of.file} cannot be used: {file.problem}")
    elif not await trusts_prompt(slash.session, file.of, "would be an agent", "agent"):
        return
    elif task.strip():
        await _start(slash, name, task.strip())
    else:
        screen.say(f"{file.of.file}, ready; /agents {name} TASK starts one")
        screen.quiet(file.of.text.rstrip())


def agent_words(slash: Slash) -> list[tuple[str, str]]:
    """Return the names of kinds, each with what it is for."""
    trust = TrustStore(slash.session.setup.home)
    return [(name, _meaning(file, trust)) for name, file in _files(slash).items()]


async def _list(slash: Slash, files: dict[str, AgentFile]) -> None:
    session, trust = slash.session, TrustStore(slash.session.setup.home)
    if files:
        session.screen.heading("Kinds")
        session.screen.pairs({f"  {n}": _meaning(file, trust) for n, file in files.items()})
    if agents := await session.thread.subagents.agents():
        session.screen.heading("Agents of this thread")
        session.screen.pairs(
            {f"  {each.nickname}": f"{each.status} · {each.agent_id}" for each in agents}
        )
    if not files and not agents:
        session.screen.say("no agents; agents/NAME.md in the home defines a kind of them")


async def _start(slash: Slash, name: str, task: str) -> None:
    session = slash.session
    order = SpawnRequest(message=task, agent_type=name, nickname=name)
    started = await session.thread.subagents.spawn(order)
    if isinstance(started, AgentRefusal):
        session.screen.trouble(started.reason)
        return
    session.screen.say(f"started {started.nickname}, {started.agent_id}")
    if not session.busy:
        session.await_agents()


def _files(slash: Slash) -> dict[str, AgentFile]:
    cwd = slash.session.thread.log.setup.cwd
    return {each.name: each for each in find_agent_files(slash.session.setup.home, cwd)}


def _meaning(file: AgentFile, trust: TrustStore) -> str:
    if file.definition is None:
        return f"left out: {file.problem}"
    if not file.is_trusted(trust):
        return "an agent of this project, not trusted yet"
    return file.definition.description
