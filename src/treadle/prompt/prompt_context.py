"""The prompt context: all facts about the machine and the settings that fragments may use.

Owns the shape of these facts, not how they are read. Invariant: rendering reads
nothing else, so the same context always gives the same bytes.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.wire import Json

__all__ = [
    "MODES",
    "AgentType",
    "AgentsDocs",
    "ApprovalPolicy",
    "CollaborationMode",
    "ContextValue",
    "ExecutorFacts",
    "ListedSkill",
    "McpServerFacts",
    "PlanStep",
    "PromptContext",
    "SandboxMode",
    "Subagent",
    "Task",
    "named_mode",
]

ApprovalPolicy: TypeAlias = Literal["untrusted", "on-failure", "on-request", "never"]
MODES = ("default", "plan")
"""The modes that need no instructions of the host's."""
SandboxMode: TypeAlias = Literal[
    "read-only", "workspace-write", "danger-full-access", "external-sandbox"
]


class AgentsDocs(Struct, frozen=True):
    """The joined text of the AGENTS.md files.

    `problems` names for people the files that were left out or cut; the model never sees it.
    """

    directory: str
    text: str
    problems: tuple[str, ...] = ()


class CollaborationMode(Struct, frozen=True):
    """How the user and the model work together; ``plan`` brings its own instructions."""

    name: str
    instructions: str = ""


def named_mode(name: str) -> CollaborationMode | None:
    """Return the mode of a name, None for the usual one. Raises `ConfigError` for others.

    A mode that brings no instructions would change nothing, and nobody would notice.
    """
    if name not in MODES:
        raise ConfigError(
            f"there is no mode {name!r}; there are {', '.join(MODES)}; a host may bring a "
            "`CollaborationMode` with instructions of its own"
        )
    return None if name == "default" else CollaborationMode(name)


class Subagent(Struct, frozen=True):
    """An agent that this thread started."""

    ref: str
    nickname: str


class AgentType(Struct, frozen=True):
    """A kind of agent that this thread may start."""

    name: str
    description: str


class McpServerFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP server, as the model is told of it."""

    name: str
    tools: int = 0
    searched: bool = False
    """Whether its tools are found by search, and are in no request."""
    digest: str = ""
    """The stored snapshot of what it offers."""
    resources: bool = False
    instructions: str = ""
    problem: str = ""
    """Why it cannot be called now."""


class ExecutorFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where tools act, if that is not the user's machine."""

    place: str
    """What it is, in some words."""
    workspace: str
    """The directory that the thread works in, as it is called there; empty for the same one."""
    shell: str = "bash"
    contains: bool = False
    """Whether it is a boundary of its own, as a container is."""
    number: int = 1
    """Counts the places that the thread has had."""
    carried: bool = False
    """Whether the files of the one before came along."""


class ContextValue(Struct, frozen=True):
    """A value that a host adds under a key, and whether the host trusts it."""

    value: str
    kind: Literal["application", "untrusted"] = "untrusted"


class ListedSkill(Struct, frozen=True, omit_defaults=True):
    """A skill that the model can load, as it is listed."""

    name: str
    description: str = ""
    path: str = ""
    digest: str = ""
    """Of its file, shortened."""


class PlanStep(Struct, frozen=True):
    """One step of the model's plan."""

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Task(Struct, frozen=True, omit_defaults=True):
    """What the thread is working on."""

    goal: str = ""
    plan: tuple[PlanStep, ...] = ()
    files: tuple[str, ...] = ()


class PromptContext(Struct, frozen=True, kw_only=True):
    """Everything the built-in fragments need, already read from the machine."""

    cwd: str
    shell: str = "bash"
    """The shell that runs command lines."""
    date: str = ""
    """Today where the user is, ``2026-11-16``; empty where it is not told."""
    timezone: str = ""
    approval_policy: ApprovalPolicy = "on-request"
    sandbox_mode: SandboxMode = "read-only"
    network_access: bool = False
    """Whether commands may use the network, where the sandbox mode leaves that open."""
    network_hosts: tuple[str, ...] = ()
    """The only hosts that they reach, if they may not use all of the network."""
    writable_roots: tuple[str, ...] = ()
    approved_prefixes: tuple[tuple[str, ...], ...] = ()
    developer_instructions: str | None = None
    agents_docs: AgentsDocs | None = None
    guidance: str | None = None
    overlay_suffix: str | None = None
    """What overlays say now."""
    personality: str | None = None
    collaboration_mode: CollaborationMode | None = None
    model: str = ""
    model_instructions: str = ""
    agent_types: tuple[AgentType, ...] = ()
    """Kinds of agents that users and hosts have described."""
    subagents: tuple[Subagent, ...] = ()
    skills: tuple[ListedSkill, ...] = ()
    """The skills that the model can load, as many as fit."""
    mcp_servers: tuple[McpServerFacts, ...] = ()
    executor: ExecutorFacts | None = None
    additional_context: dict[str, ContextValue] = field(default_factory=dict)
    window_used: int = 0
    """The step that the use of the window has reached, in percent; 0 where it is not told."""
    task: Task | None = None
    extras: dict[str, Json] = field(default_factory=dict)
    """For fragments of third parties, each under its own id."""
