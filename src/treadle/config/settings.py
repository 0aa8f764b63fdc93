"""Settings: every key of a configuration, its type and its default.

Owns the keys. Invariant: a key that was once accepted keeps its name and meaning; None
means that the user leaves the choice to the model.
"""

# No postponed annotations: decoders read them, and reading them from text is slow.

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from ..core.addresses import HOST_PATTERN
from .mcp_settings import McpSettings

__all__ = [
    "DEFAULT_MODEL",
    "Agents",
    "AgentsMd",
    "ChannelSettings",
    "CodexSettings",
    "CompactionSettings",
    "ExecutorSettings",
    "HookEvent",
    "HookSettings",
    "LimitSettings",
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
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
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
    files: bool = True
    """Whether files define kinds of agents: those of the user, and of projects once trusted."""


class SkillSettings(Struct, frozen=True, kw_only=True):
    """Which skills threads may use."""

    enabled: bool = True
    """Whether the model is told of skills at all, and can load them."""
    project: bool = True
    """Whether a project's skills count, once they are trusted."""
    user: bool = True
    """Whether those in the user's home count."""
    packages: bool = True
    """Whether those of installed packages count."""
    directories: tuple[Text, ...] = ()
    """More directories of the user's that hold skills."""
    disabled: tuple[Text, ...] = ()
    """Names of skills that do not count."""


class CompactionSettings(Struct, frozen=True, kw_only=True):
    """How the runtime compacts."""

    model: Text | None = None
    """Writes the summaries; None: the thread's own model."""


class LimitSettings(Struct, frozen=True, kw_only=True):
    """How far a turn may go, with the agents that it starts."""

    cost: Annotated[float, Meta(gt=0)] | None = None
    """Money, in the currency of the model's price."""
    steps: Positive | None = None
    """Requests that a model has answered."""
    seconds: Seconds | None = None
    tokens: Positive | None = None


class AgentsMd(Struct, frozen=True, kw_only=True):
    """How project instructions are found."""

    max_bytes: Natural = 32 * 1024
    fallback_names: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = (".git",)


class CodexSettings(Struct, frozen=True, kw_only=True):
    """How the Codex app-server is run."""

    binary: Text | None = None
    """None: the first of a supported version on the search path, then in the package's extra."""
    home: Literal["private", "user"] = "private"
    """Whose settings and login it uses."""
    projection: Literal["native", "text"] = "native"
    """Whether Codex gets the view as its own history, or as text before the request."""
    allow_newer: bool = False
    """Whether a version runs that is newer than Treadle knows; then the user is warned."""
    request_timeout: Seconds = 60.0
    unguarded: bool = False
    """Whether turns go on where hooks cannot guard Codex's own commands."""


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
    web_search: bool | UnsetType = UNSET
    """Whether the provider's own web search is offered, where a model has one."""
    max_output_tokens: Positive | UnsetType = UNSET
    maxOutputTokens: Positive | UnsetType = UNSET  # noqa: N815
    max_tokens: Positive | UnsetType = UNSET
    temperature: Temperature | UnsetType = UNSET
    prompt_cache_retention: Literal["in_memory", "24h"] | UnsetType = UNSET
    promptCacheRetention: Literal["in_memory", "24h"] | UnsetType = UNSET  # noqa: N815
    cache_ttl: Literal["5m", "1h", "30m", "12h"] | UnsetType = UNSET
    """How long a provider should keep a prefix: 5m or 1h at Anthropic, 30m or 12h at OpenAI."""
    cache_breakpoints: bool | UnsetType = UNSET
    """Whether OpenAI is told where to cache, besides where it would itself."""


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
    key_header: Text | UnsetType = UNSET
    """The header that carries the key as it is."""
    headers: dict[str, str] | UnsetType = UNSET
    env_headers: dict[str, str] | UnsetType = UNSET
    """Headers whose values are in environment variables, by the names of both."""
    query_params: dict[str, str] | UnsetType = UNSET
    """Parameters in the URL of every request."""
    ca_file: Text | UnsetType = UNSET
    """A PEM file with certificate authorities, besides the usual ones."""
    client_certificate: Text | UnsetType = UNSET
    """A PEM file with the certificate that servers are shown."""
    client_key: Text | UnsetType = UNSET
    """A PEM file with its key, unless that is in the same file."""
    idle_timeout: Seconds | UnsetType = UNSET
    answer_timeout: Seconds | UnsetType = UNSET
    retries: Natural | UnsetType = UNSET
    remote_compaction: Literal["none", "endpoint", "trigger"] | UnsetType = UNSET
    deferred_tools: bool | UnsetType = UNSET
    """Whether its address takes tools that a search finds in the provider's own form."""
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
    """Of input that came from a cache. None: the price of other input."""
    cache_write: Amount | None = None
    """Of input that was written to a cache. None: the price of other input."""
    cache_write_long: Amount | None = None
    """Of input that was written to a cache for an hour or longer. None: as `cache_write`."""
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


class ContextSettings(Struct, frozen=True, kw_only=True):
    """A value that the model is told under a key."""

    value: Text
    trusted: bool = False
    """Whether the model hears it as instructions, not as a fact from outside."""


class ExecutorSettings(Struct, frozen=True, kw_only=True):
    """Where commands run, and how that is made."""

    where: Text | None = None
    """``docker:IMAGE``, ``ssh:HOST`` and the like; None: this machine, or where a thread was."""
    workspace: Text | None = None
    """The directory there."""
    mount: bool = True
    """Whether a container sees the thread's directory of this machine."""
    mounts: tuple[Text, ...] = ()
    """More that it sees: ``/from:/to``, or ``/from:/to:ro``."""
    env: dict[str, str] = {}
    """Variables of the commands there."""
    user: Text | None = None
    """Who runs there."""
    network: bool | None = None
    """Whether it reaches the network; None: as the plain key says."""
    on_close: Literal["keep", "pause", "stop"] = "pause"
    """What becomes of it when the thread is closed."""
    ttl: Seconds | None = None
    """It is removed so many seconds after it was made."""
    namespace: Text | None = None
    """Of Kubernetes."""


class OtelSettings(Struct, frozen=True, kw_only=True):
    """Traces and metrics for OpenTelemetry."""

    enabled: bool = False
    content: Literal["none", "full"] = "none"
    """Whether texts of the conversation go with them."""
    endpoint: Text | None = None
    """The collector, for OTLP over HTTP; None: what the standard variables say."""
    attributes: dict[str, Text] = {}
    """What is said of this program besides, such as ``deployment.environment``."""


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
    rewind_files: bool = True
    """Whether files are copied before commands and patches change them."""
    writable_roots: tuple[str, ...] = ()
    tool_output_token_limit: Positive | None = None
    instructions: Text = "auto"
    """The base instructions of new threads: a family, the path of a file, or the model's own."""
    developer_instructions: Text | None = None
    mode: Literal["default", "plan"] = "default"
    """How the user and the model work together; ``plan``: the model plans and changes nothing."""
    personality: Text | None = None
    """The manner of speaking, in the user's words."""
    engine: Text = "linear"
    """The context engine that plans what the model sees."""
    harness: Text = "auto"
    """The harness that runs the turns; ``auto``: the choice of the model and its provider."""
    store: Text | None = None
    """Where threads live: the address of a PostgreSQL database; None: in Treadle's home."""
    channel: Text | None = None
    """The channel that replies go to, besides the caller of the turn."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether engines name the source of recalled text."""
    recall_threads: tuple[str, ...] = ()
    """Threads beyond its family that a thread's engine may read."""
    recall: Literal["thread", "project"] = "thread"
    """Whose memory comes back by itself; ``project``: that of all threads of a project."""
    plain: bool = False
    """Whether the chat is lines of text only, without colours and moving parts."""
    notify: Literal["auto", "bell", "desktop", "off"] = "auto"
    """How the chat tells that a long turn has ended or asks."""
    notify_after: Annotated[float, Meta(ge=0)] = 10.0
    """How many seconds a turn runs before its end is told."""
    context: dict[str, ContextSettings] = {}
    """Values that the model is told, by key."""
    agents: Agents = Agents()
    tell_window_use: bool = False
    """Whether the model is told how full its window is, in steps."""
    compaction: CompactionSettings = CompactionSettings()
    limits: LimitSettings = LimitSettings()
    agents_md: AgentsMd = AgentsMd()
    executor: ExecutorSettings = ExecutorSettings()
    skills: SkillSettings = SkillSettings()
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
    mcp: McpSettings = McpSettings()
    otel: OtelSettings = OtelSettings()


def key_variable(provider: str, providers: Mapping[str, ProviderSettings]) -> str:
    """Return the environment variable that holds the key of `provider`."""
    configured = providers.get(provider, ProviderSettings()).key_variable
    if isinstance(configured, str):
        return configured
    return f"{provider.upper().replace('-', '_')}_API_KEY"
