"""Requests of the app-server in the middle of a turn, and the replies of the client.

Owns their structs and their methods. Invariant: a turn waits for ever for a reply, so
every request gets one, if only an error.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ....core.wire import NULL
from .types import WireStruct

__all__ = [
    "SERVER_REQUESTS",
    "AcceptWithRule",
    "ApprovalDecision",
    "ApprovalReply",
    "ClientReply",
    "CommandApprovalRequest",
    "ElicitationReply",
    "ElicitationRequest",
    "ExecPolicyRule",
    "FileChangeApprovalRequest",
    "PermissionsReply",
    "PermissionsRequest",
    "ServerRequest",
    "ToolCallReply",
    "ToolCallRequest",
    "ToolImagePart",
    "ToolTextPart",
    "UserInputAnswer",
    "UserInputOption",
    "UserInputQuestion",
    "UserInputReply",
    "UserInputRequest",
    "parse_server_request",
]

ApprovalDecision: TypeAlias = Literal["accept", "acceptForSession", "decline", "cancel"]
"""`decline` lets the turn continue, `cancel` interrupts it."""


class ExecPolicyRule(Struct, frozen=True):
    """The first words of commands that run without approval from now on."""

    execpolicy_amendment: tuple[str, ...]


class AcceptWithRule(Struct, frozen=True, rename="camel"):
    """Approve a command and every later command with the same first words."""

    accept_with_execpolicy_amendment: ExecPolicyRule


class _OfTurn(WireStruct, frozen=True, kw_only=True):
    method: ClassVar[str]

    thread_id: str
    turn_id: str


class ToolCallRequest(_OfTurn, frozen=True, kw_only=True):
    """Run a dynamic tool that the model called."""

    method: ClassVar[str] = "item/tool/call"

    call_id: str
    tool: str
    arguments: Raw
    namespace: str | None = None


class ToolTextPart(WireStruct, frozen=True, kw_only=True, tag="inputText"):
    """A text in the result of a tool."""

    text: str


class ToolImagePart(WireStruct, frozen=True, kw_only=True, tag="inputImage"):
    """An image in the result of a tool."""

    image_url: str


class ToolCallReply(WireStruct, frozen=True, kw_only=True):
    """The result of a dynamic tool; the model reads it also when the call failed."""

    content_items: tuple[ToolTextPart | ToolImagePart, ...]
    success: bool


class CommandApprovalRequest(_OfTurn, frozen=True, kw_only=True):
    """Ask whether a command may run, or whether text may be sent to a running one."""

    method: ClassVar[str] = "item/commandExecution/requestApproval"

    item_id: str
    kind: str = "command"
    command: str | None = None
    cwd: str | None = None
    reason: str | None = None
    approval_id: str | None = None
    network_approval_context: Raw = NULL
    proposed_execpolicy_amendment: tuple[str, ...] | None = None
    available_decisions: tuple[Raw, ...] | None = None


class FileChangeApprovalRequest(_OfTurn, frozen=True, kw_only=True):
    """Ask whether a patch may be applied."""

    method: ClassVar[str] = "item/fileChange/requestApproval"

    item_id: str
    reason: str | None = None
    grant_root: str | None = None


class ApprovalReply(WireStruct, frozen=True, kw_only=True):
    """The decision about a command or a patch."""

    decision: ApprovalDecision | AcceptWithRule


class PermissionsRequest(_OfTurn, frozen=True, kw_only=True):
    """Ask whether the model may have more permissions."""

    method: ClassVar[str] = "item/permissions/requestApproval"

    item_id: str
    permissions: Raw
    cwd: str = ""
    reason: str | None = None


class PermissionsReply(WireStruct, frozen=True, kw_only=True):
    """The permissions that were granted; `Raw(b"{}")` grants none."""

    permissions: Raw
    scope: Literal["turn", "session"] = msgspec.field(default_factory=lambda: "turn")


class UserInputOption(WireStruct, frozen=True, kw_only=True):
    """One option of a question."""

    label: str
    description: str = ""


class UserInputQuestion(WireStruct, frozen=True, kw_only=True):
    """One question to the user."""

    id: str
    question: str
    header: str = ""
    options: tuple[UserInputOption, ...] | None = None
    is_other: bool = False
    is_secret: bool = False


class UserInputRequest(_OfTurn, frozen=True, kw_only=True):
    """Ask the user questions of the model."""

    method: ClassVar[str] = "item/tool/requestUserInput"

    item_id: str
    questions: tuple[UserInputQuestion, ...]
    is_blocking: bool = True
    auto_resolution_ms: int | None = None


class UserInputAnswer(WireStruct, frozen=True, kw_only=True):
    """The user's answer to one question."""

    answers: tuple[str, ...]


class UserInputReply(WireStruct, frozen=True, kw_only=True):
    """The answers by question id."""

    answers: dict[str, UserInputAnswer]


class ElicitationRequest(WireStruct, frozen=True, kw_only=True):
    """Ask the user something for an MCP server."""

    method: ClassVar[str] = "mcpServer/elicitation/request"

    thread_id: str
    server_name: str
    turn_id: str | None = None


class ElicitationReply(WireStruct, frozen=True, kw_only=True):
    """What the user did with the request."""

    action: Literal["accept", "decline", "cancel"]


ServerRequest: TypeAlias = (
    ToolCallRequest
    | CommandApprovalRequest
    | FileChangeApprovalRequest
    | PermissionsRequest
    | UserInputRequest
    | ElicitationRequest
)

ClientReply: TypeAlias = (
    ToolCallReply | ApprovalReply | PermissionsReply | UserInputReply | ElicitationReply
)

SERVER_REQUESTS: dict[str, type[ServerRequest]] = {
    kind.method: kind for kind in ServerRequest.__args__
}
"""The requests that Treadle answers, by method."""

_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    method: msgspec.json.Decoder(kind) for method, kind in SERVER_REQUESTS.items()
}


def parse_server_request(method: str, params: bytes | Raw) -> ServerRequest | None:
    """Decode a request; return None if Treadle does not know the method.

    Raises `msgspec.ValidationError` if the parameters have another shape.
    """
    decoder = _decoders.get(method)
    return None if decoder is None else decoder.decode(params)
