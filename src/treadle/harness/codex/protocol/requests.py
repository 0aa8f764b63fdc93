"""Requests: what Treadle asks of the app-server, and the answers.

Owns their parameters and results. Invariant: a parameter that is left out is not
sent, so that the server's own default holds.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, TypeAlias

from msgspec import Raw

from .base import Approval, Empty, Message, Request, Sandbox
from .values import Thread, Turn

__all__ = [
    "AccountLogin",
    "AdditionalContext",
    "Capabilities",
    "ClientInfo",
    "DynamicTool",
    "Environment",
    "FunctionTool",
    "ImageInput",
    "Initialize",
    "Initialized",
    "LocalImageInput",
    "NamespaceTool",
    "TerminalEnd",
    "Terminated",
    "TextInput",
    "ThreadArchive",
    "ThreadCompact",
    "ThreadFork",
    "ThreadInject",
    "ThreadOpened",
    "ThreadRead",
    "ThreadReadAnswer",
    "ThreadResume",
    "ThreadStart",
    "ThreadUnsubscribe",
    "ThreadUnsubscribed",
    "TurnBegun",
    "TurnInterrupt",
    "TurnStart",
    "TurnSteer",
    "TurnSteered",
    "UserInput",
]


class ClientInfo(Message, frozen=True, kw_only=True):
    """Who speaks; the name becomes the originator that providers see."""

    name: str
    version: str
    title: str | None = None


class Capabilities(Message, frozen=True, kw_only=True):
    """What this client understands, and which notifications it does not want."""

    experimental_api: bool = False
    opt_out_notification_methods: tuple[str, ...] = ()


class Initialized(Message, frozen=True, kw_only=True):
    """Who answers; the user agent holds the version."""

    user_agent: str
    codex_home: str = ""


class Initialize(Request[Initialized], frozen=True, kw_only=True):
    """The first request on a connection."""

    method: ClassVar[str] = "initialize"
    answer: ClassVar[type[Any]] = Initialized

    client_info: ClientInfo
    capabilities: Capabilities


class AccountLogin(Request[Empty], frozen=True, kw_only=True, tag="chatgptAuthTokens"):
    """Signs the server in with tokens that it keeps in memory only."""

    method: ClassVar[str] = "account/login/start"
    answer: ClassVar[type[Any]] = Empty

    access_token: str
    chatgpt_account_id: str

    def __repr__(self) -> str:
        return "AccountLogin(…)"


class FunctionTool(Message, frozen=True, kw_only=True, tag="function"):
    """A tool of ours that the app-server calls through `item/tool/call`."""

    name: str
    description: str
    input_schema: Raw
    defer_loading: bool = False


class NamespaceTool(Message, frozen=True, kw_only=True, tag="namespace"):
    """Tools of ours under one name."""

    name: str
    description: str
    tools: tuple[FunctionTool, ...]


DynamicTool: TypeAlias = FunctionTool | NamespaceTool


class ThreadOpened(Message, frozen=True, kw_only=True):
    """The answer to start, resume and fork."""

    thread: Thread
    model: str = ""
    model_provider: str = ""
    cwd: str = ""
    reasoning_effort: str | None = None
    instruction_sources: tuple[str, ...] = ()


class Environment(Message, frozen=True, kw_only=True):
    """Where commands can run, and in which directory."""

    environment_id: str
    cwd: str

    @classmethod
    def local(cls, cwd: str) -> Self:
        """This machine."""
        return cls(environment_id="local", cwd=cwd)


class ThreadStart(Request[ThreadOpened], frozen=True, kw_only=True):
    """Begin a thread. It is written to disk with its first turn or injection."""

    method: ClassVar[str] = "thread/start"
    answer: ClassVar[type[Any]] = ThreadOpened

    cwd: str | None = None
    """Named here, the server writes down that its project is trusted, and heeds its settings,
    if commands may write; named by one of `environments`, it does neither."""
    model: str | None = None
    model_provider: str | None = None
    approval_policy: Approval | None = None
    sandbox: Sandbox | None = None
    base_instructions: str | None = None
    """An empty one removes the message altogether."""
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None
    """Settings of this thread alone, by dotted key."""
    dynamic_tools: tuple[DynamicTool, ...] | None = None
    environments: tuple[Environment, ...] | None = None
    """With none at all, no tool is offered that would run a command."""
    ephemeral: bool | None = None
    experimental_raw_events: bool = False


class ThreadResume(Request[ThreadOpened], frozen=True, kw_only=True):
    """Load a thread from disk; of one that is loaded, the overrides are ignored."""

    method: ClassVar[str] = "thread/resume"
    answer: ClassVar[type[Any]] = ThreadOpened

    thread_id: str
    cwd: str | None = None
    model: str | None = None
    model_provider: str | None = None
    approval_policy: Approval | None = None
    sandbox: Sandbox | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None
    exclude_turns: bool = False


class ThreadFork(Request[ThreadOpened], frozen=True, kw_only=True):
    """Branch off a thread; its developer instructions are not inherited.

    An ephemeral fork needs `exclude_turns` and keeps the parent's cache key.
    """

    method: ClassVar[str] = "thread/fork"
    answer: ClassVar[type[Any]] = ThreadOpened

    thread_id: str
    last_turn_id: str | None = None
    before_turn_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    model_provider: str | None = None
    approval_policy: Approval | None = None
    sandbox: Sandbox | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None
    ephemeral: bool = False
    exclude_turns: bool = False


class ThreadInject(Request[Empty], frozen=True, kw_only=True):
    """Append raw Responses items to a thread's history; there must be at least one."""

    method: ClassVar[str] = "thread/inject_items"
    answer: ClassVar[type[Any]] = Empty

    thread_id: str
    items: tuple[Raw, ...]


class ThreadUnsubscribed(Message, frozen=True, kw_only=True):
    """Whether there was anything to leave."""

    status: str


class ThreadUnsubscribe(Request[ThreadUnsubscribed], frozen=True, kw_only=True):
    """Stop getting a thread's events; it is unloaded some time later."""

    method: ClassVar[str] = "thread/unsubscribe"
    answer: ClassVar[type[Any]] = ThreadUnsubscribed

    thread_id: str


class ThreadArchive(Request[Empty], frozen=True, kw_only=True):
    """Unload a thread and put it away."""

    method: ClassVar[str] = "thread/archive"
    answer: ClassVar[type[Any]] = Empty

    thread_id: str


class ThreadCompact(Request[Empty], frozen=True, kw_only=True):
    """Compact natively; what happens then is told as a turn."""

    method: ClassVar[str] = "thread/compact/start"
    answer: ClassVar[type[Any]] = Empty

    thread_id: str


class ThreadReadAnswer(Message, frozen=True, kw_only=True):
    """A thread as stored."""

    thread: Thread


class ThreadRead(Request[ThreadReadAnswer], frozen=True, kw_only=True):
    """Look at a thread, loaded or not. Injected items are not shown."""

    method: ClassVar[str] = "thread/read"
    answer: ClassVar[type[Any]] = ThreadReadAnswer

    thread_id: str
    include_turns: bool = False


class TextInput(Message, frozen=True, kw_only=True, tag="text"):
    """Text a user typed."""

    text: str


class ImageInput(Message, frozen=True, kw_only=True, tag="image"):
    """An image by address; `data:` addresses work."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class LocalImageInput(Message, frozen=True, kw_only=True, tag="localImage"):
    """An image by file."""

    path: str
    detail: Literal["auto", "low", "high", "original"] | None = None


UserInput: TypeAlias = TextInput | ImageInput | LocalImageInput


class AdditionalContext(Message, frozen=True, kw_only=True):
    """Text beside the user's; sent again only when it changed."""

    kind: Literal["application", "untrusted"]
    value: str


class TurnBegun(Message, frozen=True, kw_only=True):
    """The turn that was started, or queued behind the running one."""

    turn: Turn


class TurnStart(Request[TurnBegun], frozen=True, kw_only=True):
    """Run a turn; without input the model answers the history as it is."""

    method: ClassVar[str] = "turn/start"
    answer: ClassVar[type[Any]] = TurnBegun

    thread_id: str
    input: tuple[UserInput, ...]
    client_user_message_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    approval_policy: Approval | None = None
    sandbox_policy: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    collaboration_mode: dict[str, Any] | None = None
    additional_context: dict[str, AdditionalContext] | None = None


class TurnSteered(Message, frozen=True, kw_only=True):
    """The turn that took the text."""

    turn_id: str


class TurnSteer(Request[TurnSteered], frozen=True, kw_only=True):
    """Add text to the running turn; the response in flight is thrown away."""

    method: ClassVar[str] = "turn/steer"
    answer: ClassVar[type[Any]] = TurnSteered

    thread_id: str
    expected_turn_id: str
    input: tuple[UserInput, ...]
    client_user_message_id: str | None = None


class Terminated(Message, frozen=True, kw_only=True):
    """Whether there was something to end."""

    terminated: bool = False


class TerminalEnd(Request[Terminated], frozen=True, kw_only=True):
    """End a command that still runs."""

    method: ClassVar[str] = "thread/backgroundTerminals/terminate"
    answer: ClassVar[type[Any]] = Terminated

    thread_id: str
    process_id: str


class TurnInterrupt(Request[Empty], frozen=True, kw_only=True):
    """Stop the running turn."""

    method: ClassVar[str] = "turn/interrupt"
    answer: ClassVar[type[Any]] = Empty

    thread_id: str
    turn_id: str
