"""Asks: what the app-server requests of Treadle in the middle of a turn, and the answers.

Owns their shapes and which method carries which. Invariant: a turn waits for ever for
an answer, so every ask is answered, if only with an error.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ....core.wire import NULL
from .base import WireStruct

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
"""`decline` lets the turn go on, `cancel` interrupts it."""


class ExecPolicyRule(Struct, frozen=True):
    """How the commands begin that shall run unasked from now on."""

    execpolicy_amendment: tuple[str, ...]


class AcceptWithRule(Struct, frozen=True, rename="camel"):
    """Yes, and the same to every command that begins so."""

    accept_with_execpolicy_amendment: ExecPolicyRule


class _OfTurn(WireStruct, frozen=True, kw_only=True):
    method: ClassVar[str]

    thread_id: str
    turn_id: str


class ToolCallRequest(_OfTurn, frozen=True, kw_only=True):
    """The model called one of the dynamic tools."""

    method: ClassVar[str] = "item/tool/call"

    call_id: str
    tool: str
    arguments: Raw
    namespace: str | None = None


class ToolTextPart(WireStruct, frozen=True, kw_only=True, tag="inputText"):
    """Text of a tool's result."""

    text: str


class ToolImagePart(WireStruct, frozen=True, kw_only=True, tag="inputImage"):
    """An image of a tool's result."""

    image_url: str


class ToolCallReply(WireStruct, frozen=True, kw_only=True):
    """A dynamic tool's result; the model reads it whether or not it succeeded."""

    content_items: tuple[ToolTextPart | ToolImagePart, ...]
    success: bool


class CommandApprovalRequest(_OfTurn, frozen=True, kw_only=True):
    """Whether a command may run, or text be typed into a running one."""

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
    """Whether a patch may be applied."""

    method: ClassVar[str] = "item/fileChange/requestApproval"

    item_id: str
    reason: str | None = None
    grant_root: str | None = None


class ApprovalReply(WireStruct, frozen=True, kw_only=True):
    """The answer to an approval of a command or a patch."""

    decision: ApprovalDecision | AcceptWithRule


class PermissionsRequest(_OfTurn, frozen=True, kw_only=True):
    """Whether the model may have more permissions."""

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
    """One answer to choose."""

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
    """Questions the model has for the user."""

    method: ClassVar[str] = "item/tool/requestUserInput"

    item_id: str
    questions: tuple[UserInputQuestion, ...]
    is_blocking: bool = True
    auto_resolution_ms: int | None = None


class UserInputAnswer(WireStruct, frozen=True, kw_only=True):
    """What the user answered to one question."""

    answers: tuple[str, ...]


class UserInputReply(WireStruct, frozen=True, kw_only=True):
    """The answers by question."""

    answers: dict[str, UserInputAnswer]


class ElicitationRequest(WireStruct, frozen=True, kw_only=True):
    """An MCP server wants something of the user."""

    method: ClassVar[str] = "mcpServer/elicitation/request"

    thread_id: str
    server_name: str
    turn_id: str | None = None


class ElicitationReply(WireStruct, frozen=True, kw_only=True):
    """What the user did about it."""

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
"""What Treadle answers, by method."""

_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    method: msgspec.json.Decoder(kind) for method, kind in SERVER_REQUESTS.items()
}


def parse_server_request(method: str, params: bytes | Raw) -> ServerRequest | None:
    """The ask, or None where Treadle does not know the method.

    Raises `msgspec.ValidationError` where the parameters have another shape.
    """
    decoder = _decoders.get(method)
    return None if decoder is None else decoder.decode(params)
