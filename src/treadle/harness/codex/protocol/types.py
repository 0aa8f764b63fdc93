"""The values that messages share: threads, turns, items, errors and usage.

Owns the base structs, the names on the wire (`camelCase`) and the link from a request to
its result. Invariant: a status is a plain string, because a newer server may use one
that Treadle does not know; an item of an unknown type is an `OtherItem`, never an error.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from ....core.wire import NULL

__all__ = [
    "AccountLimits",
    "AgentMessageItem",
    "ClientRequest",
    "CodexApprovalPolicy",
    "CodexSandboxMode",
    "CodexThreadInfo",
    "CodexThreadStatus",
    "CodexTurnError",
    "CodexTurnInfo",
    "CommandItem",
    "CompactionItem",
    "DynamicToolItem",
    "EmptyResult",
    "FileChangeInfo",
    "FileChangeItem",
    "LimitWindow",
    "McpToolItem",
    "OtherItem",
    "PlanItem",
    "PlanStepInfo",
    "ReasoningItem",
    "RequestId",
    "ThreadTokenUsage",
    "TokenCounts",
    "TurnItem",
    "UsageMetadata",
    "UserMessageItem",
    "WebSearchItem",
    "WireStruct",
    "parse_item",
]

R = TypeVar("R")

RequestId: TypeAlias = int | str
"""Treadle and the server count their requests separately."""

CodexApprovalPolicy: TypeAlias = Literal["untrusted", "on-request", "never"]
CodexSandboxMode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]


class WireStruct(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A value that is sent or received."""


class EmptyResult(WireStruct, frozen=True):
    """A result without content."""


class ClientRequest(WireStruct, Generic[R], frozen=True, kw_only=True):
    """The parameters of a request; the class knows its method and the type of its result."""

    method: ClassVar[str]
    result_type: ClassVar[type[Any]]


class CodexThreadStatus(WireStruct, frozen=True, kw_only=True):
    """The state of a thread: `notLoaded`, `idle`, `systemError` or `active`."""

    type: str
    active_flags: tuple[str, ...] = ()


_TOO_LONG = '"context_length_exceeded"'


class CodexTurnError(WireStruct, frozen=True, kw_only=True):
    """Why a turn, or one attempt of it, failed."""

    message: str
    codex_error_info: Raw = NULL
    additional_details: str | None = None

    @property
    def kind(self) -> str:
        """Return the name of the error, such as `contextWindowExceeded`; empty if it has none."""
        match self._info:
            case str(name):
                return name
            case {**named} if len(named) == 1:
                return str(next(iter(named)))
        return ""

    @property
    def is_overflow(self) -> bool:
        """Say whether the request was too long, by Codex's name or by the provider's code."""
        return self.kind == "contextWindowExceeded" or _TOO_LONG in self.message

    @property
    def http_status(self) -> int | None:
        """Return the HTTP status of the provider, if the error has one."""
        match self._info:
            case {**named} if len(named) == 1:
                match next(iter(named.values())):
                    case {"httpStatusCode": int(status)}:
                        return status
        return None

    @property
    def _info(self) -> object:
        return msgspec.json.decode(self.codex_error_info)


class CodexTurnInfo(WireStruct, frozen=True, kw_only=True):
    """A turn; `status` is `inProgress`, `completed`, `interrupted` or `failed`."""

    id: str
    status: str
    error: CodexTurnError | None = None
    items: tuple[Raw, ...] = ()
    items_view: str = ""
    started_at: int | None = None
    completed_at: int | None = None
    duration_ms: int | None = None


class CodexThreadInfo(WireStruct, frozen=True, kw_only=True):
    """A thread as the app-server describes it; `path` is its rollout, None if ephemeral."""

    id: str
    session_id: str = ""
    path: str | None = None
    ephemeral: bool = False
    history_mode: str = ""
    forked_from_id: str | None = None
    model_provider: str = ""
    cli_version: str = ""
    cwd: str = ""
    status: CodexThreadStatus = CodexThreadStatus(type="notLoaded")
    turns: tuple[CodexTurnInfo, ...] = ()


class TokenCounts(WireStruct, frozen=True, kw_only=True):
    """Numbers of tokens; a number that the server does not send is unknown, not zero."""

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class UsageMetadata(WireStruct, frozen=True, kw_only=True):
    """The usage of a response in the provider's own format."""

    metadata: Raw = NULL


class ThreadTokenUsage(WireStruct, frozen=True, kw_only=True):
    """The tokens of the whole thread and of its newest response."""

    total: TokenCounts
    last: TokenCounts
    model_context_window: int | None = None


class LimitWindow(WireStruct, frozen=True, kw_only=True):
    """How much of one rate limit is used."""

    used_percent: float
    window_duration_mins: int | None = None
    resets_at: int | None = None


class AccountLimits(WireStruct, frozen=True, kw_only=True):
    """The rate limits of an account."""

    primary: LimitWindow | None = None
    secondary: LimitWindow | None = None
    limit_id: str | None = None
    limit_name: str | None = None
    plan_type: str | None = None


class PlanStepInfo(WireStruct, frozen=True, kw_only=True):
    """One step of a plan: `pending`, `inProgress` or `completed`."""

    step: str
    status: str


class _Item(WireStruct, frozen=True, kw_only=True):
    id: str


class UserMessageItem(_Item, frozen=True, kw_only=True, tag="userMessage"):
    """The input of the turn; `client_id` is the id that the client gave it."""

    content: tuple[Raw, ...] = ()
    client_id: str | None = None


class AgentMessageItem(_Item, frozen=True, kw_only=True, tag="agentMessage"):
    """A message of the model; with `delivery` ``async``, a question that it does not wait for."""

    text: str = ""
    delivery: str | None = None
    phase: str | None = None


class PlanItem(_Item, frozen=True, kw_only=True, tag="plan"):
    """A plan that the model wrote."""

    text: str = ""


class ReasoningItem(_Item, frozen=True, kw_only=True, tag="reasoning"):
    """Reasoning of the model: summaries and, rarely, the full text."""

    summary: tuple[str, ...] = ()
    content: tuple[str, ...] = ()


class CommandItem(_Item, frozen=True, kw_only=True, tag="commandExecution"):
    """A command; `status` is `inProgress`, `completed`, `failed` or `declined`."""

    command: str
    cwd: str = ""
    status: str = ""
    source: str = ""
    process_id: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None


class FileChangeInfo(WireStruct, frozen=True, kw_only=True):
    """The change that a patch makes to one file."""

    path: str
    diff: str = ""
    kind: Raw = NULL


class FileChangeItem(_Item, frozen=True, kw_only=True, tag="fileChange"):
    """A patch."""

    changes: tuple[FileChangeInfo, ...] = ()
    status: str = ""


class DynamicToolItem(_Item, frozen=True, kw_only=True, tag="dynamicToolCall"):
    """A call of a dynamic tool of Treadle's."""

    tool: str
    namespace: str | None = None
    arguments: Raw = NULL
    status: str = ""
    success: bool | None = None
    content_items: Raw = NULL
    """The parts of its result, as Treadle sent them."""
    duration_ms: int | None = None


class McpToolItem(_Item, frozen=True, kw_only=True, tag="mcpToolCall"):
    """A call of a tool of an MCP server."""

    server: str
    tool: str
    arguments: Raw = NULL
    status: str = ""
    result: Raw = NULL
    error: Raw = NULL
    duration_ms: int | None = None


class WebSearchItem(_Item, frozen=True, kw_only=True, tag="webSearch"):
    """A web search."""

    query: str = ""
    action: Raw = NULL


class CompactionItem(_Item, frozen=True, kw_only=True, tag="contextCompaction"):
    """A native compaction by the app-server."""


class OtherItem(WireStruct, frozen=True, kw_only=True):
    """An item of a type that Treadle does not know."""

    type: str = ""
    id: str = ""


_Known: TypeAlias = (
    UserMessageItem
    | AgentMessageItem
    | PlanItem
    | ReasoningItem
    | CommandItem
    | FileChangeItem
    | DynamicToolItem
    | McpToolItem
    | WebSearchItem
    | CompactionItem
)
TurnItem: TypeAlias = _Known | OtherItem

_known: msgspec.json.Decoder[_Known] = msgspec.json.Decoder(_Known)
_other = msgspec.json.Decoder(OtherItem)


def parse_item(payload: bytes | Raw) -> TurnItem:
    """Decode an item of a turn."""
    try:
        return _known.decode(payload)
    except msgspec.ValidationError:
        pass
    try:
        return _other.decode(payload)
    except msgspec.ValidationError:
        return OtherItem()
