"""Settings: every key of a configuration, its type and its default.

Owns the keys. Invariant: a key that was once accepted keeps its name and meaning, and
None means that the user leaves the choice to the model.
"""

# No postponed annotations: decoders read them, and to read them from text takes its time.

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = [
    "DEFAULT_MODEL",
    "Agents",
    "AgentsMd",
    "ChannelSettings",
    "CodexSettings",
    "HookEvent",
    "HookSettings",
    "ModelSettings",
    "ParamSettings",
    "Price",
    "ProviderSettings",
    "Settings",
]

DEFAULT_MODEL = "openai:gpt-5.5"
"""For a new thread where nobody names one."""

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Positive: TypeAlias = Annotated[int, Meta(gt=0)]
Natural: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]

Verbosity: TypeAlias = Literal["low", "medium", "high"]

HookSeconds: TypeAlias = Annotated[float, Meta(gt=0, le=600)]

HookEvent: TypeAlias = Literal[
    "thread_start",
    "before_tool_call",
    "tool_result",
    "after_tool_call",
    "before_prompt_build",
    "before_compaction",
    "after_compaction",
    "turn_start",
    "turn_end",
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "Stop",
]
"""Our events, and the common names of some: hooks for those are spoken to in the common form."""


class Agents(Struct, frozen=True, kw_only=True):
    """What bounds the agents that a thread may start."""

    enabled: bool = True
    depth: Positive = 1
    """How many generations there may be below a thread."""
    concurrent: Positive = 6
    """How many agents of one thread may work at a time."""
    resume: bool = True
    """Whether agents that a crash cut off go on."""


class AgentsMd(Struct, frozen=True, kw_only=True):
    """How project instructions are found."""

    max_bytes: Natural = 32 * 1024
    fallback_names: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = (".git",)


class CodexSettings(Struct, frozen=True, kw_only=True):
    """How the Codex app-server is run."""

    binary: Text | None = None
    """None: the one on the search path, else the one of the extra."""
    home: Literal["private", "user"] = "private"
    """Whose settings and login it uses."""
    projection: Literal["native", "text"] = "native"
    """Whether a view becomes its own history, or text before the request."""
    request_timeout: Seconds = 60.0


class ParamSettings(Struct, frozen=True, kw_only=True):
    """What requests say besides, in each spelling that is understood."""

    parallel_tool_calls: bool | UnsetType = UNSET
    parallelToolCalls: bool | UnsetType = UNSET  # noqa: N815 - as others spell it
    reasoning_effort: Text | UnsetType = UNSET
    reasoningEffort: Text | UnsetType = UNSET  # noqa: N815
    reasoning_summary: Text | UnsetType = UNSET
    reasoningSummary: Text | UnsetType = UNSET  # noqa: N815
    text_verbosity: Verbosity | UnsetType = UNSET
    textVerbosity: Verbosity | UnsetType = UNSET  # noqa: N815
    verbosity: Verbosity | UnsetType = UNSET
    service_tier: Text | UnsetType = UNSET
    serviceTier: Text | UnsetType = UNSET  # noqa: N815


class ModelSettings(Struct, frozen=True, kw_only=True):
    """What holds for one model."""

    harness: Text | UnsetType = UNSET
    fallbacks: tuple[Text, ...] | UnsetType = UNSET
    """Who is asked in its place, also where a person chose it; empty: nobody."""
    params: ParamSettings = ParamSettings()


class ProviderSettings(Struct, frozen=True, kw_only=True):
    """How to reach a provider; what is left out stays as Treadle knows it."""

    api: Literal["responses", "chat", "messages"] | UnsetType = UNSET
    base_url: Text | UnsetType = UNSET
    key_variable: Text | UnsetType = UNSET
    key_required: bool | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    idle_timeout: Seconds | UnsetType = UNSET
    retries: Natural | UnsetType = UNSET
    remote_compaction: Literal["none", "endpoint", "trigger"] | UnsetType = UNSET
    harness: Text | UnsetType = UNSET
    """What runs the turns of its models."""
    profiles: tuple[str, ...] | UnsetType = UNSET
    """Which profiles are used, in this order, by id."""
    params: ParamSettings = ParamSettings()


class Price(Struct, frozen=True, kw_only=True):
    """What a million tokens cost."""

    input: Amount
    output: Amount
    cached_input: Amount | None = None
    """None: as much as other input."""
    currency: Text = "USD"


class HookSettings(Struct, frozen=True, kw_only=True):
    """A command to run at an event."""

    event: HookEvent
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    timeout: HookSeconds | None = None
    """None: as long as hooks of its event may take."""
    tools: tuple[str, ...] = ()
    """Only for calls of tools with such ids; globs."""
    priority: int = 0
    """The highest comes first."""


class ChannelSettings(Struct, frozen=True, kw_only=True):
    """Where replies can go."""

    kind: Literal["webhook", "terminal"]
    url: Text | None = None
    """Where a webhook is."""
    secret_variable: Text | None = None
    """The variable with what its requests are signed with."""
    private: bool = False
    """Whether it may be in this network, or without https."""


class Settings(Struct, frozen=True, kw_only=True):
    """What was settled."""

    model: Text = DEFAULT_MODEL
    fallbacks: tuple[Text, ...] = ()
    """Models to ask where the configured one does not answer."""
    effort: Text | None = None
    verbosity: Verbosity | None = None
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    approval: Literal["never", "on-request", "untrusted"] = "on-request"
    network: bool = False
    writable_roots: tuple[str, ...] = ()
    tool_output_token_limit: Positive | None = None
    developer_instructions: Text | None = None
    engine: Text = "linear"
    """Which context engine plans what the model sees."""
    harness: Text = "auto"
    """What runs the turns; ``auto`` leaves it to the model and its provider."""
    channel: Text | None = None
    """Where replies go, besides to whoever runs the turn."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether engines say where recalled text is from."""
    recall_threads: tuple[str, ...] = ()
    """Threads beyond its family that a thread's engine may read."""
    agents: Agents = Agents()
    agents_md: AgentsMd = AgentsMd()
    codex: CodexSettings = CodexSettings()
    models: dict[str, ModelSettings] = {}
    providers: dict[str, ProviderSettings] = {}
    prices: dict[str, Price] = {}
    hooks: dict[str, HookSettings] = {}
    channels: dict[str, ChannelSettings] = {}
    engines: dict[str, dict[str, Any]] = {}
    """A table for each engine, in words of its own."""
    harnesses: dict[str, dict[str, Any]] = {}
    """A table for each harness of another package, in words of its own."""
