"""What is written down about agents, and the seams around them.

Owns three records: the order (a row of the parent's outbox until it was announced), the
kin (a setting of the parent) and the descent (a setting of the child). Invariant: each
names the thread it is about, so that a fork that inherits a setting is not taken for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..core.entries import SettingsChange
from ..core.items import Message
from ..core.provenance import InputProvenance
from ..core.wire import Json, json_bytes
from ..harness.events import Event
from ..prompt.prompt_context import PromptContext, Subagent
from ..store.contract import OutboxDraft, OutboxRow

if TYPE_CHECKING:
    from ..sandbox.approvals import Decision
    from ..tools.contract import Answers

__all__ = [
    "DESCENT",
    "TOPIC",
    "AgentLimits",
    "Child",
    "Descent",
    "EndReason",
    "Kin",
    "Opener",
    "Order",
    "SpawnWatcher",
    "descent_of",
    "kin_of",
    "kin_setting",
    "may_spawn",
    "told_of",
]

TOPIC = "agent"
"""The outbox topic of orders that were not announced yet."""

DESCENT = "agent_of"
"""The setting under which a thread says who started it."""

_KIN = "agent:"
_LISTED = 20

EndReason: TypeAlias = Literal["deleted", "completed", "swept", "released"]


class AgentLimits(Struct, frozen=True, kw_only=True):
    """What spawning is bounded by."""

    depth: int = 1
    """How many generations there may be below a thread that nobody started."""
    concurrent: int = 6
    """How many agents of one thread may work at a time."""
    resume: bool = True
    """Whether agents that a crash cut off go on; else they are only announced."""


class Kin(Struct, frozen=True, kw_only=True):
    """What a thread knows of an agent it started."""

    owner: str
    nickname: str
    agent_type: str = "default"
    forked: bool = False


class Descent(Struct, frozen=True, kw_only=True):
    """What an agent knows of where it comes from."""

    thread: str
    parent: str
    depth: int
    nickname: str
    agent_type: str = "default"
    forked: bool = False


class Order(Struct, frozen=True, kw_only=True):
    """Work for an agent: one turn to begin with, and whatever it is told meanwhile."""

    child: str
    turn: str
    message: str
    nickname: str
    tool: str = "spawn_agent"
    """What it was ordered with."""

    @property
    def draft(self) -> OutboxDraft:
        """The row in which it waits to be announced."""
        return OutboxDraft(topic=TOPIC, key=self.child, body=Raw(json_bytes(self)))

    @classmethod
    def of(cls, row: OutboxRow) -> Order:
        """The order in `row`."""
        return msgspec.json.decode(row.body, type=cls)


def kin_setting(child: str, kin: Kin) -> SettingsChange:
    """The setting under which a thread remembers `child`."""
    return SettingsChange({f"{_KIN}{child}": Raw(json_bytes(kin))})


def kin_of(settings: Mapping[str, Json], owner: str) -> dict[str, Kin]:
    """The agents that `owner` has started, by their ids, oldest first."""
    found = {
        name.removeprefix(_KIN): msgspec.json.decode(value, type=Kin | None)
        for name, value in settings.items()
        if name.startswith(_KIN)
    }
    # Ids sort by their age; settings that were read backwards do not.
    return {id_: kin for id_, kin in sorted(found.items()) if kin and kin.owner == owner}


def descent_of(settings: Mapping[str, Json], thread: str) -> Descent | None:
    """Where `thread` comes from; None for one that nobody started."""
    value = settings.get(DESCENT)
    descent = None if value is None else msgspec.json.decode(value, type=Descent | None)
    return descent if descent and descent.thread == thread else None


def may_spawn(settings: Mapping[str, Json], thread: str, limits: AgentLimits | None) -> bool:
    """Whether the model of a thread gets the tools that start agents.

    A forked agent keeps them beyond its bounds, for the prefix it shares with its parent.
    """
    if limits is None:
        return False
    descent = descent_of(settings, thread)
    if descent is None:
        return limits.depth > 0
    return descent.forked or descent.depth < limits.depth


def told_of(settings: Mapping[str, Json], thread: str) -> tuple[Subagent, ...]:
    """The agents that the model of `thread` is told of: the newest."""
    known = list(kin_of(settings, thread).items())
    return tuple(Subagent(child, kin.nickname) for child, kin in known[-_LISTED:])


class Child(Protocol):
    """A thread that is open to work for another."""

    def run(
        self,
        *said: Message,
        turn_id: str | None = None,
        provenance: InputProvenance | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run a turn."""
        ...

    def interrupt(self) -> None:
        """Break the turn off."""
        ...

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer one of its questions."""
        ...

    def adopt(self, settings: PromptContext) -> None:
        """Hold itself to the settings of its parent, from its next step on."""
        ...


Opener: TypeAlias = Callable[[str], AbstractAsyncContextManager[Child]]
"""Opens a child with its parent's model, tools and rights."""


class SpawnWatcher(Protocol):
    """Who wants to know of agents: a context engine."""

    async def prepare_spawn(
        self, child: str, mode: Literal["isolated", "fork"]
    ) -> Callable[[], Awaitable[None]] | None:
        """An agent is about to start; what to call when it does not after all."""
        ...

    async def on_subagent_ended(self, child: str, reason: EndReason) -> None:
        """An agent has done what it was for."""
        ...
