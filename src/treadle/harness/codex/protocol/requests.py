"""Requests: what Treadle asks of the app-server, and the answers.

Owns their parameters and results. Invariant: a parameter that is left out is not
sent, so that the server's own default holds.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, TypeAlias

from msgspec import Raw

from .base import ClientRequest, CodexApprovalPolicy, CodexSandboxMode, EmptyResult, WireStruct
from .values import CodexThreadInfo, CodexTurnInfo

__all__ = [
    "AccountLogin",
    "AdditionalContext",
    "ClientCapabilities",
    "ClientInfo",
    "CommandEnvironment",
    "DynamicFunction",
    "DynamicNamespace",
    "DynamicTool",
    "ImageInput",
    "Initialize",
    "InitializeResult",
    "LocalImageInput",
    "OpenThreadResult",
    "TerminalTerminate",
    "TerminateResult",
    "TextInput",
    "ThreadArchive",
    "ThreadCompact",
    "ThreadFork",
    "ThreadInject",
    "ThreadRead",
    "ThreadReadResult",
    "ThreadResume",
    "ThreadStart",
    "ThreadUnsubscribe",
    "TurnInterrupt",
    "TurnStart",
    "TurnStartResult",
    "TurnSteer",
    "TurnSteerResult",
    "UnsubscribeResult",
    "UserInput",
]


class ClientInfo(WireStruct, frozen=True, kw_only=True):
    """Who speaks; the name becomes the originator that providers see."""

    name: str
    version: str
    title: str | None = None


class ClientCapabilities(WireStruct, frozen=True, kw_only=True):
    """What this client understands, and which notifications it does not want."""

    experimental_api: bool = False
    opt_out_notification_methods: tuple[str, ...] = ()


class InitializeResult(WireStruct, frozen=True, kw_only=True):
    """Who answers; the user agent holds the version."""

    user_agent: str
    codex_home: str = ""


class Initialize(ClientRequest[InitializeResult], frozen=True, kw_only=True):
    """The first request on a connection."""

    method: ClassVar[str] = "initialize"
    result_type: ClassVar[type[Any]] = InitializeResult

    client_info: ClientInfo
    capabilities: ClientCapabilities


class AccountLogin(ClientRequest[EmptyResult], frozen=True, kw_only=True, tag="chatgptAuthTokens"):
    """Signs the server in with tokens that it keeps in memory only."""

    method: ClassVar[str] = "account/login/start"
    result_type: ClassVar[type[Any]] = EmptyResult

    access_token: str
    chatgpt_account_id: str

    def __repr__(self) -> str:
        return "AccountLogin(…)"


class DynamicFunction(WireStruct, frozen=True, kw_only=True, tag="function"):
    """A tool of ours that the app-server calls through `item/tool/call`."""

    name: str
    description: str
    input_schema: Raw
    defer_loading: bool = False


class DynamicNamespace(WireStruct, frozen=True, kw_only=True, tag="namespace"):
    """Tools of ours under one name."""

    name: str
    description: str
    tools: tuple[DynamicFunction, ...]


DynamicTool: TypeAlias = DynamicFunction | DynamicNamespace


class OpenThreadResult(WireStruct, frozen=True, kw_only=True):
    """The answer to start, resume and fork."""

    thread: CodexThreadInfo
    model: str = ""
    model_provider: str = ""
    cwd: str = ""
    reasoning_effort: str | None = None
    instruction_sources: tuple[str, ...] = ()


class CommandEnvironment(WireStruct, frozen=True, kw_only=True):
    """Where commands can run, and in which directory."""

    environment_id: str
    cwd: str

    @classmethod
    def local(cls, cwd: str) -> Self:
        """This machine."""
        return cls(environment_id="local", cwd=cwd)


class ThreadStart(ClientRequest[OpenThreadResult], frozen=True, kw_only=True):
    """Begin a thread. It is written to disk with its first turn or injection."""

    method: ClassVar[str] = "thread/start"
    result_type: ClassVar[type[Any]] = OpenThreadResult

    cwd: str | None = None
    """Named here, the server writes down that its project is trusted, and heeds its settings,
    if commands may write; named by one of `environments`, it does neither."""
    model: str | None = None
    model_provider: str | None = None
    approval_policy: CodexApprovalPolicy | None = None
    sandbox: CodexSandboxMode | None = None
    base_instructions: str | None = None
    """An empty one removes the message altogether."""
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None
    """Settings of this thread alone, by dotted key."""
    dynamic_tools: tuple[DynamicTool, ...] | None = None
    environments: tuple[CommandEnvironment, ...] | None = None
    """With none at all, no tool is offered that would run a command."""
    ephemeral: bool | None = None
    experimental_raw_events: bool = False


class ThreadResume(ClientRequest[OpenThreadResult], frozen=True, kw_only=True):
    """Load a thread from disk; of one that is loaded, the overrides are ignored."""

    method: ClassVar[str] = "thread/resume"
    result_type: ClassVar[type[Any]] = OpenThreadResult

    thread_id: str
    cwd: str | None = None
    model: str | None = None
    model_provider: str | None = None
    approval_policy: CodexApprovalPolicy | None = None
    sandbox: CodexSandboxMode | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None
    exclude_turns: bool = False


class ThreadFork(ClientRequest[OpenThreadResult], frozen=True, kw_only=True):
    """Branch off a thread; its developer instructions are not inherited.

    An ephemeral fork needs `exclude_turns` and keeps the parent's cache key.
    """

    method: ClassVar[str] = "thread/fork"
    result_type: ClassVar[type[Any]] = OpenThreadResult

    thread_id: str
    last_turn_id: str | None = None
    before_turn_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    model_provider: str | None = None
    approval_policy: CodexApprovalPolicy | None = None
    sandbox: CodexSandboxMode | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None
    ephemeral: bool = False
    exclude_turns: bool = False


class ThreadInject(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Append raw Responses items to a thread's history; there must be at least one."""

    method: ClassVar[str] = "thread/inject_items"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str
    items: tuple[Raw, ...]


class UnsubscribeResult(WireStruct, frozen=True, kw_only=True):
    """Whether there was anything to leave."""

    status: str


class ThreadUnsubscribe(ClientRequest[UnsubscribeResult], frozen=True, kw_only=True):
    """Stop getting a thread's events; it is unloaded some time later."""

    method: ClassVar[str] = "thread/unsubscribe"
    result_type: ClassVar[type[Any]] = UnsubscribeResult

    thread_id: str


class ThreadArchive(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Unload a thread and put it away."""

    method: ClassVar[str] = "thread/archive"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str


class ThreadCompact(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Compact natively; what happens then is told as a turn."""

    method: ClassVar[str] = "thread/compact/start"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str


class ThreadReadResult(WireStruct, frozen=True, kw_only=True):
    """A thread as stored."""

    thread: CodexThreadInfo


class ThreadRead(ClientRequest[ThreadReadResult], frozen=True, kw_only=True):
    """Look at a thread, loaded or not. Injected items are not shown."""

    method: ClassVar[str] = "thread/read"
    result_type: ClassVar[type[Any]] = ThreadReadResult

    thread_id: str
    include_turns: bool = False


class TextInput(WireStruct, frozen=True, kw_only=True, tag="text"):
    """Text a user typed."""

    text: str


class ImageInput(WireStruct, frozen=True, kw_only=True, tag="image"):
    """An image by address; `data:` addresses work."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class LocalImageInput(WireStruct, frozen=True, kw_only=True, tag="localImage"):
    """An image by file."""

    path: str
    detail: Literal["auto", "low", "high", "original"] | None = None


UserInput: TypeAlias = TextInput | ImageInput | LocalImageInput


class AdditionalContext(WireStruct, frozen=True, kw_only=True):
    """Text beside the user's; sent again only when it changed."""

    kind: Literal["application", "untrusted"]
    value: str


class TurnStartResult(WireStruct, frozen=True, kw_only=True):
    """The turn that was started, or queued behind the running one."""

    turn: CodexTurnInfo


class TurnStart(ClientRequest[TurnStartResult], frozen=True, kw_only=True):
    """Run a turn; without input the model answers the history as it is."""

    method: ClassVar[str] = "turn/start"
    result_type: ClassVar[type[Any]] = TurnStartResult

    thread_id: str
    input: tuple[UserInput, ...]
    client_user_message_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    approval_policy: CodexApprovalPolicy | None = None
    sandbox_policy: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    collaboration_mode: dict[str, Any] | None = None
    additional_context: dict[str, AdditionalContext] | None = None


class TurnSteerResult(WireStruct, frozen=True, kw_only=True):
    """The turn that took the text."""

    turn_id: str


class TurnSteer(ClientRequest[TurnSteerResult], frozen=True, kw_only=True):
    """Add text to the running turn; the response in flight is thrown away."""

    method: ClassVar[str] = "turn/steer"
    result_type: ClassVar[type[Any]] = TurnSteerResult

    thread_id: str
    expected_turn_id: str
    input: tuple[UserInput, ...]
    client_user_message_id: str | None = None


class TerminateResult(WireStruct, frozen=True, kw_only=True):
    """Whether there was something to end."""

    terminated: bool = False


class TerminalTerminate(ClientRequest[TerminateResult], frozen=True, kw_only=True):
    """End a command that still runs."""

    method: ClassVar[str] = "thread/backgroundTerminals/terminate"
    result_type: ClassVar[type[Any]] = TerminateResult

    thread_id: str
    process_id: str


class TurnInterrupt(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Stop the running turn."""

    method: ClassVar[str] = "turn/interrupt"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str
    turn_id: str
