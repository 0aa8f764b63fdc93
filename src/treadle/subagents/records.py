"""The records about agents in the log, and the protocols around them.

Owns three records: the task (a row of the parent's outbox until its end was announced), the
agent (a setting of the parent) and the lineage (a setting of the agent). Invariant: each
names the thread it is about, so that a fork that inherits a setting does not use it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from msgspec import Raw, Struct

from ..core.entries import SettingsChange
from ..core.items import Message
from ..core.provenance import InputProvenance
from ..core.typed import decode_json
from ..core.wire import Json, json_bytes
from ..engines.values import EndReason
from ..harness.events import Event
from ..prompt.prompt_context import PromptContext, Subagent
from ..store.contract import OutboxDraft, OutboxRow
from .definition import AgentDefinition

if TYPE_CHECKING:
    from ..sandbox.approvals import Decision
    from ..tools.contract import Answers

__all__ = [
    "LINEAGE",
    "TOPIC",
    "AgentLimits",
    "AgentRecord",
    "AgentTask",
    "AgentThread",
    "Lineage",
    "OpenAgent",
    "SpawnWatcher",
    "agent_records",
    "agent_setting",
    "can_spawn",
    "definition_of",
    "lineage_of",
    "listed_agents",
]

TOPIC = "agent"
"""The outbox topic of tasks whose end was not announced yet."""

LINEAGE = "agent_of"
"""The setting in which a thread says who started it."""

_AGENT = "agent:"
_DEFINITION = "agent_definition:"
_MOST_LISTED = 20


class AgentLimits(Struct, frozen=True, kw_only=True):
    """The limits of starting agents."""

    depth: int = 1
    """How many generations there may be below a thread that nobody started."""
    concurrent: int = 6
    """How many agents of one thread may run at a time."""
    resume: bool = True
    """Whether agents that a crash interrupted continue; else they are only announced."""


class AgentRecord(Struct, frozen=True, kw_only=True):
    """What a thread knows of an agent it started."""

    owner: str
    nickname: str
    agent_type: str = "default"
    forked: bool = False


class Lineage(Struct, frozen=True, kw_only=True):
    """What an agent knows of the thread that started it."""

    thread: str
    parent: str
    depth: int
    nickname: str
    agent_type: str = "default"
    forked: bool = False


class AgentTask(Struct, frozen=True, kw_only=True):
    """A task for an agent: its first turn, and messages that come meanwhile."""

    child: str
    turn: str
    message: str
    nickname: str
    tool: str = "spawn_agent"
    """The tool that gave the task."""

    @property
    def draft(self) -> OutboxDraft:
        """The row that stays in the outbox until the end was announced."""
        return OutboxDraft(topic=TOPIC, key=self.child, body=Raw(json_bytes(self)))

    @classmethod
    def of_row(cls, row: OutboxRow) -> AgentTask:
        """Return the task in `row`."""
        return decode_json(row.body, cls)


def agent_setting(
    child: str, record: AgentRecord, definition: AgentDefinition | None
) -> SettingsChange:
    """Return the settings in which a thread records the agent `child`, and how it was defined.

    The definition stays what it was when the agent was started, whatever its file says later.
    """
    changes = {f"{_AGENT}{child}": Raw(json_bytes(record))}
    if definition is not None:
        changes[f"{_DEFINITION}{child}"] = Raw(json_bytes(definition))
    return SettingsChange(changes)


def definition_of(settings: Mapping[str, Json], child: str) -> AgentDefinition | None:
    """Return how the agent `child` of a thread was defined; None for one of no kind."""
    value = settings.get(f"{_DEFINITION}{child}")
    return None if value is None else decode_json(value, AgentDefinition | None)


def agent_records(settings: Mapping[str, Json], owner: str) -> dict[str, AgentRecord]:
    """Return the agents that `owner` has started, by id, oldest first."""
    found = {
        name.removeprefix(_AGENT): decode_json(value, AgentRecord | None)
        for name, value in settings.items()
        if name.startswith(_AGENT)
    }
    # Ids sort by their age; settings that were read backwards do not.
    return {id_: each for id_, each in sorted(found.items()) if each and each.owner == owner}


def lineage_of(settings: Mapping[str, Json], thread: str) -> Lineage | None:
    """Return who started `thread`; None for a thread that nobody started."""
    value = settings.get(LINEAGE)
    lineage = None if value is None else decode_json(value, Lineage | None)
    return lineage if lineage and lineage.thread == thread else None


def can_spawn(settings: Mapping[str, Json], thread: str, limits: AgentLimits | None) -> bool:
    """Return whether the model of a thread gets the tools that start agents.

    A forked agent keeps them beyond its limits, for the prefix it shares with its parent.
    """
    if limits is None:
        return False
    lineage = lineage_of(settings, thread)
    if lineage is None:
        return limits.depth > 0
    return lineage.forked or lineage.depth < limits.depth


def listed_agents(settings: Mapping[str, Json], thread: str) -> tuple[Subagent, ...]:
    """Return the agents that the prompt of `thread` lists: the newest."""
    known = list(agent_records(settings, thread).items())
    return tuple(Subagent(child, record.nickname) for child, record in known[-_MOST_LISTED:])


class AgentThread(Protocol):
    """The open thread of an agent."""

    def run(
        self,
        *said: Message,
        turn_id: str | None = None,
        provenance: InputProvenance | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run a turn."""
        ...

    def interrupt(self) -> None:
        """Interrupt the turn."""
        ...

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer one of its questions."""
        ...

    def adopt(self, settings: PromptContext) -> None:
        """Use the settings of its parent, from its next step on."""
        ...


OpenAgent: TypeAlias = Callable[[str], AbstractAsyncContextManager[AgentThread]]
"""Opens the thread of an agent with its parent's model, tools and rights."""


class SpawnWatcher(Protocol):
    """Is told of agents; a context engine is one."""

    async def prepare_spawn(
        self, child: str, mode: Literal["isolated", "fork"]
    ) -> Callable[[], Awaitable[None]] | None:
        """Prepare for an agent; return what to call when it does not start after all."""
        ...

    async def on_subagent_ended(self, child: str, reason: EndReason) -> None:
        """Handle the end of an agent's task."""
        ...
