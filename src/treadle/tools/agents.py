"""The tools that start agents and send them messages.

Owns what a model is told about them, and the `Spawner` Protocol behind them. Invariant: no
result of a call contains what an agent found out. Its announcement does that, once.
"""

# No postponed annotations: tools are made of them, and parsing them from text is slow.

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, TypeAlias, cast

from msgspec import Meta, Struct

from ..core.specs import ToolSpec
from ..core.wire import json_bytes
from .contract import Tool, ToolResult
from .decorator import tool

__all__ = [
    "AgentInfo",
    "AgentRefusal",
    "AgentStatus",
    "SpawnRequest",
    "Spawner",
    "WaitLimits",
    "WaitResult",
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


class SpawnRequest(Struct, frozen=True, kw_only=True):
    """What a new agent is for."""

    message: str
    nickname: str = ""
    agent_type: str = "default"
    fork: bool = False
    """Whether it gets the conversation so far."""


class WaitResult(Struct, frozen=True, kw_only=True):
    """How a wait ended: the agents waited for, and their status now."""

    status: dict[str, AgentStatus]
    timed_out: bool


class AgentRefusal(Struct, frozen=True):
    """Why something was not done; for the model to read."""

    reason: str


class Spawner(Protocol):
    """Runs agents for one thread. Targets are agent ids."""

    async def spawn(self, order: SpawnRequest) -> AgentInfo | AgentRefusal:
        """Start an agent. Its task is durable before this returns."""
        ...

    async def send(
        self, target: str, message: str, *, interrupt: bool = False
    ) -> str | AgentRefusal:
        """Send an agent a message, into its turn or as a new one; return the message's key."""
        ...

    async def wait(self, targets: Sequence[str], seconds: float) -> WaitResult | AgentRefusal:
        """Wait until one of `targets`, or of all agents when empty, is done and announced."""
        ...

    async def agents(self) -> list[AgentInfo]:
        """Return the agents of this thread, oldest first."""
        ...

    async def interrupt(self, target: str) -> AgentInfo | AgentRefusal:
        """Interrupt an agent's turn, and wait until it is over."""
        ...


class WaitLimits(Struct, frozen=True):
    """How long a wait may take, in milliseconds."""

    least: int = 10_000
    most: int = 3_600_000

    def seconds(self, wanted: int) -> float:
        """Return how long to wait when `wanted` milliseconds were asked for."""
        return min(max(wanted, self.least), self.most) / 1000


_DEFAULT_LIMITS = WaitLimits()

_Target: TypeAlias = Annotated[str, Meta(description="The agent_id.")]
_Type: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[a-z][a-z0-9_-]{0,31}$",
        description="A word for the kind of work, such as explorer or worker.",
    ),
]


class _AgentTools(Struct):
    """The functions behind the tools; their docstrings are what a model reads."""

    spawner: Spawner
    limits: WaitLimits

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
        request = SpawnRequest(
            message=message, nickname=task_name, agent_type=agent_type, fork=fork_context
        )
        return _result("spawn_agent", await self.spawner.spawn(request))

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
        return _result(
            "send_input", sent if isinstance(sent, AgentRefusal) else {"submission_id": sent}
        )

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
        seconds = self.limits.seconds(timeout_ms)
        return _result("wait_agent", await self.spawner.wait(targets, seconds))

    async def list_agents(self) -> ToolResult:
        """List the agents you have started, and how they are."""
        return _result("list_agents", {"agents": await self.spawner.agents()})

    async def interrupt_agent(self, target: _Target) -> ToolResult:
        """Break off what an agent does. It can be given something else with send_input."""
        return _result("interrupt_agent", await self.spawner.interrupt(target))


def agent_tools(spawner: Spawner, *, limits: WaitLimits = _DEFAULT_LIMITS) -> tuple[Tool, ...]:
    """Return the tools that start agents through `spawner` and send them messages."""
    tools = _AgentTools(spawner, limits)
    acting = (tools.spawn_agent, tools.send_input, tools.interrupt_agent)
    reading = (tools.wait_agent, tools.list_agents)
    return (
        *(tool(description=_description(each))(each) for each in acting),
        *(
            tool(description=_description(each), parallel=True, replay_safe=True)(each)
            for each in reading
        ),
    )


def agent_specs() -> tuple[ToolSpec, ...]:
    """Return what a model is told about these tools, without a spawner."""
    nobody = cast("Spawner", None)
    return tuple(each.spec for each in agent_tools(nobody))


def _description(function: object) -> str:
    return " ".join((function.__doc__ or "").split())


def _result(name: str, answer: object) -> ToolResult:
    if isinstance(answer, AgentRefusal):
        return ToolResult(f"{name} failed: {answer.reason}", success=False)
    return ToolResult(json_bytes(answer).decode())
