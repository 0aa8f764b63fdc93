"""Requests of Treadle to the app-server, and their results.

Owns their parameters and results. Invariant: a parameter that is not set is not sent, so
that the default of the server applies.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, TypeAlias

from msgspec import Raw

from .types import (
    ClientRequest,
    CodexApprovalPolicy,
    CodexSandboxMode,
    CodexThreadInfo,
    CodexTurnInfo,
    EmptyResult,
    WireStruct,
)

__all__ = [
    "TURN_TEXT_LIMIT",
    "AccountResult",
    "ArchiveThread",
    "ClientCapabilities",
    "ClientInfo",
    "CommandEnvironment",
    "CompactThread",
    "DeleteThread",
    "DynamicFunction",
    "DynamicNamespace",
    "DynamicTool",
    "ForkThread",
    "ImageInput",
    "Initialize",
    "InitializeResult",
    "InjectItems",
    "InterruptTurn",
    "LoginAccount",
    "OpenThreadResult",
    "ReadAccount",
    "ReadThread",
    "ReadThreadResult",
    "ResumeThread",
    "StartThread",
    "StartTurn",
    "StartTurnResult",
    "SteerTurn",
    "SteerTurnResult",
    "TerminateCommand",
    "TerminateResult",
    "TextInput",
    "UnsubscribeResult",
    "UnsubscribeThread",
    "UserInput",
]


class ClientInfo(WireStruct, frozen=True, kw_only=True):
    """The client; providers see its name as the originator."""

    name: str
    version: str
    title: str | None = None


class ClientCapabilities(WireStruct, frozen=True, kw_only=True):
    """What this client supports, and which notifications it does not want."""

    experimental_api: bool = False
    opt_out_notification_methods: tuple[str, ...] = ()


class InitializeResult(WireStruct, frozen=True, kw_only=True):
    """The server; the user agent contains its version."""

    user_agent: str
    codex_home: str = ""


class Initialize(ClientRequest[InitializeResult], frozen=True, kw_only=True):
    """Open the connection; the first request."""

    method: ClassVar[str] = "initialize"
    result_type: ClassVar[type[Any]] = InitializeResult

    client_info: ClientInfo
    capabilities: ClientCapabilities


class LoginAccount(ClientRequest[EmptyResult], frozen=True, kw_only=True, tag="chatgptAuthTokens"):
    """Log the server in with tokens that it keeps in memory only."""

    method: ClassVar[str] = "account/login/start"
    result_type: ClassVar[type[Any]] = EmptyResult

    access_token: str
    chatgpt_account_id: str

    def __repr__(self) -> str:
        return "LoginAccount(…)"


class AccountResult(WireStruct, frozen=True, kw_only=True):
    """The login of the server: None without one, and whether its provider needs one."""

    account: Raw | None = None
    requires_openai_auth: bool = False


class ReadAccount(ClientRequest[AccountResult], frozen=True, kw_only=True):
    """Ask for the login of the server."""

    method: ClassVar[str] = "account/read"
    result_type: ClassVar[type[Any]] = AccountResult

    refresh_token: bool = False


class DynamicFunction(WireStruct, frozen=True, kw_only=True, tag="function"):
    """A tool of Treadle's that the app-server calls through `item/tool/call`."""

    name: str
    description: str
    input_schema: Raw
    defer_loading: bool = False


class DynamicNamespace(WireStruct, frozen=True, kw_only=True, tag="namespace"):
    """Tools of Treadle's under one name."""

    name: str
    description: str
    tools: tuple[DynamicFunction, ...]


DynamicTool: TypeAlias = DynamicFunction | DynamicNamespace


class OpenThreadResult(WireStruct, frozen=True, kw_only=True):
    """The result of start, resume and fork."""

    thread: CodexThreadInfo
    model: str = ""
    model_provider: str = ""
    cwd: str = ""
    reasoning_effort: str | None = None
    instruction_sources: tuple[str, ...] = ()


class CommandEnvironment(WireStruct, frozen=True, kw_only=True):
    """A place where commands can run, and the directory."""

    environment_id: str
    cwd: str

    @classmethod
    def local(cls, cwd: str) -> Self:
        """Return the environment of this machine."""
        return cls(environment_id="local", cwd=cwd)


class StartThread(ClientRequest[OpenThreadResult], frozen=True, kw_only=True):
    """Start a thread. It is written to disk with its first turn or injection."""

    method: ClassVar[str] = "thread/start"
    result_type: ClassVar[type[Any]] = OpenThreadResult

    cwd: str | None = None
    """If commands may write there, the server records that the project is trusted and uses the
    project's settings. A directory in `environments` has neither effect."""
    model: str | None = None
    model_provider: str | None = None
    approval_policy: CodexApprovalPolicy | None = None
    sandbox: CodexSandboxMode | None = None
    base_instructions: str | None = None
    """An empty text removes the message."""
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None
    """Settings of this thread only, by dotted key."""
    dynamic_tools: tuple[DynamicTool, ...] | None = None
    environments: tuple[CommandEnvironment, ...] | None = None
    """With an empty list, no tool that runs commands is offered."""
    ephemeral: bool | None = None
    experimental_raw_events: bool = False


class ResumeThread(ClientRequest[OpenThreadResult], frozen=True, kw_only=True):
    """Load a thread from disk; for a loaded thread the overrides are ignored."""

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


class ForkThread(ClientRequest[OpenThreadResult], frozen=True, kw_only=True):
    """Fork a thread; its developer instructions are not inherited.

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


class InjectItems(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Append raw Responses items to the history of a thread; at least one."""

    method: ClassVar[str] = "thread/inject_items"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str
    items: tuple[Raw, ...]


class UnsubscribeResult(WireStruct, frozen=True, kw_only=True):
    """Whether the client was subscribed."""

    status: str


class UnsubscribeThread(ClientRequest[UnsubscribeResult], frozen=True, kw_only=True):
    """Stop receiving the events of a thread; the server unloads it later."""

    method: ClassVar[str] = "thread/unsubscribe"
    result_type: ClassVar[type[Any]] = UnsubscribeResult

    thread_id: str


class ArchiveThread(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Unload and archive a thread."""

    method: ClassVar[str] = "thread/archive"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str


class DeleteThread(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Delete a stored thread, its rollout and its rows."""

    method: ClassVar[str] = "thread/delete"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str


class CompactThread(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Compact a thread natively; the compaction is reported as a turn."""

    method: ClassVar[str] = "thread/compact/start"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str


class ReadThreadResult(WireStruct, frozen=True, kw_only=True):
    """A stored thread."""

    thread: CodexThreadInfo


class ReadThread(ClientRequest[ReadThreadResult], frozen=True, kw_only=True):
    """Read a thread, loaded or not. Injected items are not included."""

    method: ClassVar[str] = "thread/read"
    result_type: ClassVar[type[Any]] = ReadThreadResult

    thread_id: str
    include_turns: bool = False


TURN_TEXT_LIMIT = 1 << 20
"""Characters that the app-server accepts as the text of one turn."""


class TextInput(WireStruct, frozen=True, kw_only=True, tag="text"):
    """Text of the user."""

    text: str


class ImageInput(WireStruct, frozen=True, kw_only=True, tag="image"):
    """An image by URL; `data:` URLs work."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


UserInput: TypeAlias = TextInput | ImageInput


class StartTurnResult(WireStruct, frozen=True, kw_only=True):
    """The turn that was started, or queued after the running one."""

    turn: CodexTurnInfo


class StartTurn(ClientRequest[StartTurnResult], frozen=True, kw_only=True):
    """Start a turn; without input the model continues the history as it is."""

    method: ClassVar[str] = "turn/start"
    result_type: ClassVar[type[Any]] = StartTurnResult

    thread_id: str
    input: tuple[UserInput, ...]
    cwd: str | None = None
    model: str | None = None
    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    service_tier: str | None = None
    """Holds for later turns too; ``default`` takes it back."""
    approval_policy: CodexApprovalPolicy | None = None
    sandbox_policy: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    collaboration_mode: dict[str, Any] | None = None


class SteerTurnResult(WireStruct, frozen=True, kw_only=True):
    """The turn that accepted the text."""

    turn_id: str


class SteerTurn(ClientRequest[SteerTurnResult], frozen=True, kw_only=True):
    """Add text to the running turn; the response in flight is discarded."""

    method: ClassVar[str] = "turn/steer"
    result_type: ClassVar[type[Any]] = SteerTurnResult

    thread_id: str
    expected_turn_id: str
    input: tuple[UserInput, ...]


class TerminateResult(WireStruct, frozen=True, kw_only=True):
    """Whether a command was running."""

    terminated: bool = False


class TerminateCommand(ClientRequest[TerminateResult], frozen=True, kw_only=True):
    """Stop a command that still runs."""

    method: ClassVar[str] = "thread/backgroundTerminals/terminate"
    result_type: ClassVar[type[Any]] = TerminateResult

    thread_id: str
    process_id: str


class InterruptTurn(ClientRequest[EmptyResult], frozen=True, kw_only=True):
    """Stop the running turn."""

    method: ClassVar[str] = "turn/interrupt"
    result_type: ClassVar[type[Any]] = EmptyResult

    thread_id: str
    turn_id: str
