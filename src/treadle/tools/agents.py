"""The tools that start agents and speak with them.

Owns what a model is told about them, and the seam behind: a `Spawner`. Invariant: no
call tells what an agent found out. Its announcement does that, once.
"""

# No postponed annotations: tools are made of them, and to read them from text takes its time.

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, TypeAlias, cast

from msgspec import Meta, Struct

from ..core.specs import ToolSpec
from ..core.wire import json_bytes
from .contract import Tool, ToolResult
from .decorator import tool

__all__ = [
    "AgentInfo",
    "AgentStatus",
    "Patience",
    "Refused",
    "SpawnOrder",
    "Spawner",
    "Waited",
    "agent_specs",
    "agent_tools",
]

AgentStatus: TypeAlias = Literal["running", "completed", "failed", "interrupted", "unknown"]


class AgentInfo(Struct, frozen=True, kw_only=True):
    """An agent that a thread started."""

    agent_id: str
    nickname: str
    agent_type: str
    status: AgentStatus


class SpawnOrder(Struct, frozen=True, kw_only=True):
    """What a new agent is for."""

    message: str
    nickname: str = ""
    agent_type: str = "default"
    fork: bool = False
    """Whether it knows what was said so far."""


class Waited(Struct, frozen=True, kw_only=True):
    """What a wait came to: the agents waited for, and how they are now."""

    status: dict[str, AgentStatus]
    timed_out: bool


class Refused(Struct, frozen=True):
    """Why something was not done; for the model to read."""

    reason: str


class Spawner(Protocol):
    """Runs agents for one thread. Targets are agent ids."""

    async def spawn(self, order: SpawnOrder) -> AgentInfo | Refused:
        """Start an agent. What it is for is durable before this returns."""
        ...

    async def send(self, target: str, message: str, *, interrupt: bool = False) -> str | Refused:
        """Say something to an agent: into its turn, or as a new one; the message's key."""
        ...

    async def wait(self, targets: Sequence[str], seconds: float) -> Waited | Refused:
        """Wait until one of `targets` is done and announced; of all agents when empty."""
        ...

    async def agents(self) -> list[AgentInfo]:
        """The agents of this thread, oldest first."""
        ...

    async def interrupt(self, target: str) -> AgentInfo | Refused:
        """Break an agent's turn off, and wait until it is over."""
        ...


class Patience(Struct, frozen=True):
    """How long a wait may take, in milliseconds."""

    least: int = 10_000
    most: int = 3_600_000

    def seconds(self, wanted: int) -> float:
        """What is waited when `wanted` milliseconds were asked for."""
        return min(max(wanted, self.least), self.most) / 1000


_USUAL = Patience()

_Target: TypeAlias = Annotated[str, Meta(description="The agent_id.")]
_Type: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[a-z][a-z0-9_-]{0,31}$",
        description="A word for the kind of work, such as explorer or worker.",
    ),
]


class _Offered(Struct):
    """The functions behind the tools; their docstrings are what a model reads."""

    spawner: Spawner
    patience: Patience

    async def spawn_agent(
        self,
        message: Annotated[
            str, Meta(min_length=1, description="The task, with all that it takes to do it.")
        ],
        task_name: Annotated[str, Meta(max_length=64, description="A short name for it.")] = "",
        agent_type: _Type = "default",
        fork_context: Annotated[
            bool, Meta(description="Let it know this conversation, not only the message.")
        ] = False,
    ) -> ToolResult:
        """Start an agent that works on a task beside you, with your tools and permissions.

        It goes on while you do, also after your turn. What it found out arrives here by
        itself, as a message, once it is done. Give it work that does not need yours.
        """
        order = SpawnOrder(
            message=message, nickname=task_name, agent_type=agent_type, fork=fork_context
        )
        return _told("spawn_agent", await self.spawner.spawn(order))

    async def send_input(
        self,
        target: _Target,
        message: Annotated[str, Meta(min_length=1)],
        interrupt: Annotated[
            bool, Meta(description="Break off what it does; else it reads this when it can.")
        ] = False,
    ) -> ToolResult:
        """Say something to an agent. One that has finished goes to work again."""
        sent = await self.spawner.send(target, message, interrupt=interrupt)
        return _told("send_input", sent if isinstance(sent, Refused) else {"submission_id": sent})

    async def wait_agent(
        self,
        targets: Annotated[
            tuple[str, ...], Meta(description="The agent_ids; without any, all that work.")
        ] = (),
        timeout_ms: Annotated[
            int, Meta(description="From 10000 to 3600000 milliseconds.")
        ] = 30_000,
    ) -> ToolResult:
        """Wait until one of several agents is done, and tell how they all are.

        What an agent found out is not told here: it follows as a message.
        """
        seconds = self.patience.seconds(timeout_ms)
        return _told("wait_agent", await self.spawner.wait(targets, seconds))

    async def list_agents(self) -> ToolResult:
        """List the agents you have started, and how they are."""
        return _told("list_agents", {"agents": await self.spawner.agents()})

    async def interrupt_agent(self, target: _Target) -> ToolResult:
        """Break off what an agent does. It can be given something else with send_input."""
        return _told("interrupt_agent", await self.spawner.interrupt(target))


def agent_tools(spawner: Spawner, *, patience: Patience = _USUAL) -> tuple[Tool, ...]:
    """The tools that start agents through `spawner` and speak with them."""
    offered = _Offered(spawner, patience)
    acting = (offered.spawn_agent, offered.send_input, offered.interrupt_agent)
    reading = (offered.wait_agent, offered.list_agents)
    return (
        *(tool(description=_said(each))(each) for each in acting),
        *(tool(description=_said(each), parallel=True, replay_safe=True)(each) for each in reading),
    )


def agent_specs() -> tuple[ToolSpec, ...]:
    """What a model is told about these tools, for whoever only looks."""
    nobody = cast("Spawner", None)
    return tuple(each.spec for each in agent_tools(nobody))


def _said(function: object) -> str:
    return " ".join((function.__doc__ or "").split())


def _told(name: str, answer: object) -> ToolResult:
    if isinstance(answer, Refused):
        return ToolResult(f"{name} failed: {answer.reason}", success=False)
    return ToolResult(json_bytes(answer).decode())
