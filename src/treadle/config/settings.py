"""Settings: every key of a configuration, its type and its default.

Owns the keys. Invariant: a key that was once accepted keeps its name and meaning; None
means that the user leaves the choice to the model.
"""

# No postponed annotations: decoders read them, and reading them from text is slow.

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from ..core.addresses import HOST_PATTERN

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
    "key_variable",
]

DEFAULT_MODEL = "openai:gpt-5.5"
"""The model of a new thread if the user names none."""

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Positive: TypeAlias = Annotated[int, Meta(gt=0)]
Natural: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]

Host: TypeAlias = Annotated[
    str, Meta(pattern=HOST_PATTERN, description="hosts such as 'docs.example.org', '*.example.com'")
]

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
"""Our events, and the common names of some; hooks for a common name get the common form."""


class Agents(Struct, frozen=True, kw_only=True):
    """The limits of the agents that a thread may start."""

    enabled: bool = True
    depth: Positive = 1
    """How many generations there may be below a thread."""
    concurrent: Positive = 6
    """How many agents of one thread may run at a time."""
    resume: bool = True
    """Whether agents that a crash interrupted continue."""


class AgentsMd(Struct, frozen=True, kw_only=True):
    """How project instructions are found."""

    max_bytes: Natural = 32 * 1024
    fallback_names: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = (".git",)


class CodexSettings(Struct, frozen=True, kw_only=True):
    """How the Codex app-server is run."""

    binary: Text | None = None
    """None: the one on the search path, else the one of the package's extra."""
    home: Literal["private", "user"] = "private"
    """Whose settings and login it uses."""
    projection: Literal["native", "text"] = "native"
    """Whether Codex gets the view as its own history, or as text before the request."""
    request_timeout: Seconds = 60.0


class ParamSettings(Struct, frozen=True, kw_only=True):
    """Parameters of requests, in each accepted spelling."""

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
    """The settings of one model."""

    harness: Text | UnsetType = UNSET
    fallbacks: tuple[Text, ...] | UnsetType = UNSET
    """The models to ask when it fails, also where a person chose it; empty: none."""
    params: ParamSettings = ParamSettings()


class ProviderSettings(Struct, frozen=True, kw_only=True):
    """How to reach a provider; Treadle's own values hold for what is left out."""

    api: Literal["responses", "chat", "messages"] | UnsetType = UNSET
    base_url: Text | UnsetType = UNSET
    key_variable: Text | UnsetType = UNSET
    key_required: bool | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    idle_timeout: Seconds | UnsetType = UNSET
    answer_timeout: Seconds | UnsetType = UNSET
    retries: Natural | UnsetType = UNSET
    remote_compaction: Literal["none", "endpoint", "trigger"] | UnsetType = UNSET
    harness: Text | UnsetType = UNSET
    """The harness that runs the turns of its models."""
    profiles: tuple[str, ...] | UnsetType = UNSET
    """The ids of the profiles to use, in this order."""
    params: ParamSettings = ParamSettings()


class Price(Struct, frozen=True, kw_only=True):
    """The price of a million tokens."""

    input: Amount
    output: Amount
    cached_input: Amount | None = None
    """None: the price of other input."""
    currency: Text = "USD"


class HookSettings(Struct, frozen=True, kw_only=True):
    """A command to run at an event."""

    event: HookEvent
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    timeout: HookSeconds | None = None
    """None: the limit of its event."""
    tools: tuple[str, ...] = ()
    """Globs of tool ids; the hook runs for calls of these tools only."""
    priority: int = 0
    """The highest runs first."""


class ChannelSettings(Struct, frozen=True, kw_only=True):
    """A channel that replies can go to."""

    kind: Literal["webhook", "terminal"]
    url: Text | None = None
    """The address of a webhook."""
    secret_variable: Text | None = None
    """The environment variable with the secret that signs its requests."""
    private: bool = False
    """Whether it may be in the local network, or without https."""


class Settings(Struct, frozen=True, kw_only=True):
    """The settings in force."""

    model: Text = DEFAULT_MODEL
    fallbacks: tuple[Text, ...] = ()
    """Models to ask when the configured one fails."""
    effort: Text | None = None
    verbosity: Verbosity | None = None
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    approval: Literal["never", "on-request", "untrusted"] = "on-request"
    network: bool | tuple[Host, ...] = False
    """Whether commands reach the network, or the only hosts that they reach."""
    writable_roots: tuple[str, ...] = ()
    tool_output_token_limit: Positive | None = None
    developer_instructions: Text | None = None
    engine: Text = "linear"
    """The context engine that plans what the model sees."""
    harness: Text = "auto"
    """The harness that runs the turns; ``auto``: the choice of the model and its provider."""
    channel: Text | None = None
    """The channel that replies go to, besides the caller of the turn."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether engines name the source of recalled text."""
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
    """A table for each engine, with keys of its own."""
    harnesses: dict[str, dict[str, Any]] = {}
    """A table for each harness of another package, with keys of its own."""


def key_variable(provider: str, providers: Mapping[str, ProviderSettings]) -> str:
    """Return the environment variable that holds the key of `provider`."""
    configured = providers.get(provider, ProviderSettings()).key_variable
    if isinstance(configured, str):
        return configured
    return f"{provider.upper().replace('-', '_')}_API_KEY"
