"""Thread options: what a host may say of the thread that it opens.

Owns one frozen value of small groups. Agents copy it with `msgspec.structs.replace`, the
command line fills it from settings. Invariant: whatever is left out has a usual value, and
nothing in here acts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..config.settings import Price
from ..context.head import Choices
from ..core.specs import ToolSpec
from ..delivery.channel import Channel, ReplyPolicy
from ..engines.contract import ContextEngine
from ..engines.guard import EngineTimeouts
from ..engines.loading import EngineRegistry
from ..engines.values import CitationsMode
from ..executors.choice import ExecutorChoice
from ..harness.contract import Harness
from ..harness.registry import HarnessRegistry
from ..harness.select import HarnessRules
from ..hooks import Hooks
from ..mcp.contract import OffersServers
from ..models.contract import Model
from ..models.providers import ProviderConfig
from ..policy.auth.credential_store import CredentialStore
from ..policy.limits import Limits
from ..policy.overlays import Overlays
from ..prompt.machine import DocsRules
from ..prompt.prompt_context import ApprovalPolicy, PromptContext, SandboxMode
from ..prompt.registry import Registry
from ..prompt.today import Clock, MachineClock
from ..skills.rules import SkillRules
from ..store.contract import Index, Store
from ..subagents import AgentDefinition, AgentLimits
from ..tools.contract import Tool
from ..tools.executor import ToolExecutor
from ..tools.executor_life import ExecutorSource

__all__ = [
    "AgentOptions",
    "EngineOptions",
    "HarnessOptions",
    "Limits",
    "PromptOptions",
    "Rights",
    "Routing",
    "ThreadOptions",
    "ToolOptions",
]


class Rights(Struct, frozen=True, kw_only=True):
    """The permissions of commands, and when the user is asked."""

    sandbox: SandboxMode | None = None
    """``workspace-write`` unless the settings say otherwise."""
    approval: ApprovalPolicy | None = None
    network: bool | Sequence[str] | None = None
    """All of it, nothing, or the only hosts that commands reach: ``["docs.example.org"]``."""
    writable_roots: Sequence[str] | None = None
    settings: PromptContext | None = None
    """Everything the model is told of its rights; the four above change some of it."""


class ToolOptions(Struct, frozen=True, kw_only=True):
    """The tools of the model, and where they act."""

    tools: Sequence[Tool | ToolSpec] | None = None
    """The host's own tools; None for the built-in ones."""
    executor: ToolExecutor | ExecutorSource | ExecutorChoice | str | None = None
    """Where tools act: ``docker:IMAGE`` and the like, with more details as a choice; ``local``;
    a source of executors, or an executor that the host has made and closes. None for where the
    thread was, else for this machine."""
    output_limit: int | None = None
    """Tokens of a result that the model is shown; None for the model's own limit."""
    mcp: OffersServers | None = None
    """Servers that bring more of them; whoever opened them closes them."""
    allows: Callable[[str], bool] | None = None
    """Says by name which of them the model has; None for all."""
    rewind_files: bool = True
    """Whether files are copied before tools of this machine change them, for `Thread.rewinds`."""


class EngineOptions(Struct, frozen=True, kw_only=True):
    """The context engine and its options."""

    engine: str | ContextEngine = "linear"
    """A name, or an engine of the host's."""
    config: Mapping[str, Any] = {}
    """What an engine that is named is made with."""
    registry: EngineRegistry | None = None
    """Where engines are found by name; None for those that are installed."""
    compaction_model: str | None = None
    """Writes the summaries of the runtime's compaction; None for the thread's own model. What
    the lossless engine asks is answered by the `model` of its `config`."""
    citations: CitationsMode = "auto"
    timeouts: EngineTimeouts | None = None
    """How long an engine may take; None for the usual."""
    recall_threads: Collection[str] = ()
    """Threads beyond its family that the engine may read; ``*`` for all."""
    recall: Literal["thread", "project"] = "thread"
    """Whose memory comes back by itself: the thread's own, or that of its project's threads."""


class HarnessOptions(Struct, frozen=True, kw_only=True):
    """The harness that runs the turns, and its options."""

    harness: str | Harness = "auto"
    """A name, ``auto`` for what the provider and the rules want, or a harness of the host's."""
    rules: HarnessRules | None = None
    registry: HarnessRegistry | None = None
    """Where harnesses are found by name; None for those that are installed."""


class Routing(Struct, frozen=True, kw_only=True):
    """The models that may answer, their addresses and their credentials."""

    default_model: str | None = None
    """Asked by a thread that has asked none, such as an imported one."""
    environ: Mapping[str, str] | None = None
    """Where keys and addresses of providers are looked up; None for the process's own."""
    providers: Mapping[str, ProviderConfig] = {}
    """Providers beside those that Treadle knows, or changes to them."""
    credentials: CredentialStore | None = None
    """Profiles to pay with; where one does not answer, the next is tried."""
    fallbacks: Sequence[str] = ()
    """Models to ask where the first does not answer."""
    strict: bool = False
    """Whether only the model that was asked for may answer."""
    params: Mapping[str, Mapping[str, Any]] = {}
    """What requests say besides, by the name of a provider or of a model."""
    prices: Mapping[str, Price] = {}
    """Your own prices of a million tokens, by the name of a model; they win over known ones."""


class PromptOptions(Struct, frozen=True, kw_only=True):
    """The texts that the runtime sends to the model."""

    registry: Registry | None = None
    """The fragments; None for the built-in ones and those of installed packages."""
    overlays: Overlays | None = None
    """What is added to prompts; None for what installed packages add."""
    instructions: str = "auto"
    """The base instructions of new threads: a family (`treadle prompts` lists them), the path of
    a file with your own, or ``auto`` for those of the model."""
    docs: DocsRules | None = None
    """How AGENTS.md files are found."""
    clock: Clock | None = MachineClock()
    """Says what day it is; None where the model is told no date."""
    window_use: bool = False
    """Whether the model is told how full its window is, in steps."""


class AgentOptions(Struct, frozen=True, kw_only=True):
    """The agents that the model may start."""

    limits: AgentLimits = AgentLimits()
    definitions: Sequence[AgentDefinition] = ()
    """Kinds of agents, which the model is told of."""
    files: bool = False
    """Whether files define kinds too: in the home, and those of the project that are trusted."""


class ThreadOptions(Struct, frozen=True, kw_only=True):
    """All options of a thread; `Thread.open` takes the same by keyword."""

    model: str | Model | None = None
    cwd: Path | str | None = None
    home: Path | str | None = None
    title: str = ""
    choices: Choices = Choices()
    tools: ToolOptions = ToolOptions()
    hooks: Hooks | None = None
    rights: Rights = Rights()
    engine: EngineOptions = EngineOptions()
    harness: HarnessOptions = HarnessOptions()
    routing: Routing = Routing()
    prompt: PromptOptions = PromptOptions()
    agents: AgentOptions | None = None
    """With it the model gets tools to start others."""
    skills: SkillRules | None = None
    """Which skills it may use; None for none."""
    limits: Limits = Limits()
    """How far each turn may go, with the agents that it starts."""
    channels: Mapping[str, Channel] = {}
    """Where replies go, too; the first takes what has no origin."""
    replies: ReplyPolicy | None = None
    """What of a turn is delivered to them; None for the usual."""
    store: Store | str | None = None
    """Where threads live: a store, the address of a PostgreSQL database (it is shared with those
    open there), or None for the file in `home`, shared in the same way."""
    index: Index | None = None

    @property
    def client(self) -> Model | None:
        """The host's own `Model`, if there is one."""
        return None if isinstance(self.model, str) else self.model

    @property
    def model_name(self) -> str | None:
        """The model to use from now on; None to keep the last one."""
        return self.model if isinstance(self.model, str) or self.model is None else self.model.name

    def with_changes(self, **changes: Any) -> ThreadOptions:
        """Return these options with some of them changed."""
        return msgspec.structs.replace(self, **changes)
