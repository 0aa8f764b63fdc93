"""The prompt context: all facts about the machine and the settings that fragments may use.

Owns the shape of these facts, not how they are read. Invariant: rendering reads
nothing else, so the same context always gives the same bytes.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from ..core.wire import Json

__all__ = [
    "AgentsDocs",
    "ApprovalPolicy",
    "CollaborationMode",
    "ContextValue",
    "PlanStep",
    "PromptContext",
    "SandboxMode",
    "Subagent",
    "Task",
]

ApprovalPolicy: TypeAlias = Literal["untrusted", "on-failure", "on-request", "never"]
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


class Subagent(Struct, frozen=True):
    """An agent that this thread started."""

    ref: str
    nickname: str


class ContextValue(Struct, frozen=True):
    """A value that a host adds under a key, and whether the host trusts it."""

    value: str
    kind: Literal["application", "untrusted"] = "untrusted"


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
    subagents: tuple[Subagent, ...] = ()
    additional_context: dict[str, ContextValue] = field(default_factory=dict)
    task: Task | None = None
    extras: dict[str, Json] = field(default_factory=dict)
    """For fragments of third parties, each under its own id."""
