"""Asks: what the app-server requests of Treadle in the middle of a turn, and the answers.

Owns their shapes and which method carries which. Invariant: a turn waits for ever for
an answer, so every ask is answered, if only with an error.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ....core.wire import NULL
from .base import Message

__all__ = [
    "ASKS",
    "AcceptRule",
    "Answer",
    "Ask",
    "CommandApproval",
    "Decided",
    "Decision",
    "Elicitation",
    "Elicited",
    "ExecRule",
    "FileChangeApproval",
    "InputAnswer",
    "InputAnswers",
    "Option",
    "PermissionsApproval",
    "PermissionsGranted",
    "Question",
    "ToolCall",
    "ToolImage",
    "ToolOutput",
    "ToolText",
    "UserInputAsk",
    "read_ask",
]

Decision: TypeAlias = Literal["accept", "acceptForSession", "decline", "cancel"]
"""`decline` lets the turn go on, `cancel` interrupts it."""


class ExecRule(Struct, frozen=True):
    """How the commands begin that shall run unasked from now on."""

    execpolicy_amendment: tuple[str, ...]


class AcceptRule(Struct, frozen=True, rename="camel"):
    """Yes, and the same to every command that begins so."""

    accept_with_execpolicy_amendment: ExecRule


class _OfTurn(Message, frozen=True, kw_only=True):
    method: ClassVar[str]

    thread_id: str
    turn_id: str


class ToolCall(_OfTurn, frozen=True, kw_only=True):
    """The model called one of the dynamic tools."""

    method: ClassVar[str] = "item/tool/call"

    call_id: str
    tool: str
    arguments: Raw
    namespace: str | None = None


class ToolText(Message, frozen=True, kw_only=True, tag="inputText"):
    """Text of a tool's result."""

    text: str


class ToolImage(Message, frozen=True, kw_only=True, tag="inputImage"):
    """An image of a tool's result."""

    image_url: str


class ToolOutput(Message, frozen=True, kw_only=True):
    """A dynamic tool's result; the model reads it whether or not it succeeded."""

    content_items: tuple[ToolText | ToolImage, ...]
    success: bool


class CommandApproval(_OfTurn, frozen=True, kw_only=True):
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


class FileChangeApproval(_OfTurn, frozen=True, kw_only=True):
    """Whether a patch may be applied."""

    method: ClassVar[str] = "item/fileChange/requestApproval"

    item_id: str
    reason: str | None = None
    grant_root: str | None = None


class Decided(Message, frozen=True, kw_only=True):
    """The answer to an approval of a command or a patch."""

    decision: Decision | AcceptRule


class PermissionsApproval(_OfTurn, frozen=True, kw_only=True):
    """Whether the model may have more permissions."""

    method: ClassVar[str] = "item/permissions/requestApproval"

    item_id: str
    permissions: Raw
    cwd: str = ""
    reason: str | None = None


class PermissionsGranted(Message, frozen=True, kw_only=True):
    """The permissions that were granted; `Raw(b"{}")` grants none."""

    permissions: Raw
    scope: Literal["turn", "session"] = msgspec.field(default_factory=lambda: "turn")


class Option(Message, frozen=True, kw_only=True):
    """One answer to choose."""

    label: str
    description: str = ""


class Question(Message, frozen=True, kw_only=True):
    """One question to the user."""

    id: str
    question: str
    header: str = ""
    options: tuple[Option, ...] | None = None
    is_other: bool = False
    is_secret: bool = False


class UserInputAsk(_OfTurn, frozen=True, kw_only=True):
    """Questions the model has for the user."""

    method: ClassVar[str] = "item/tool/requestUserInput"

    item_id: str
    questions: tuple[Question, ...]
    is_blocking: bool = True
    auto_resolution_ms: int | None = None


class InputAnswer(Message, frozen=True, kw_only=True):
    """What the user answered to one question."""

    answers: tuple[str, ...]


class InputAnswers(Message, frozen=True, kw_only=True):
    """The answers by question."""

    answers: dict[str, InputAnswer]


class Elicitation(Message, frozen=True, kw_only=True):
    """An MCP server wants something of the user."""

    method: ClassVar[str] = "mcpServer/elicitation/request"

    thread_id: str
    server_name: str
    turn_id: str | None = None


class Elicited(Message, frozen=True, kw_only=True):
    """What the user did about it."""

    action: Literal["accept", "decline", "cancel"]


Ask: TypeAlias = (
    ToolCall
    | CommandApproval
    | FileChangeApproval
    | PermissionsApproval
    | UserInputAsk
    | Elicitation
)

Answer: TypeAlias = ToolOutput | Decided | PermissionsGranted | InputAnswers | Elicited

ASKS: dict[str, type[Ask]] = {kind.method: kind for kind in Ask.__args__}
"""What Treadle answers, by method."""

_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    method: msgspec.json.Decoder(kind) for method, kind in ASKS.items()
}


def read_ask(method: str, params: bytes | Raw) -> Ask | None:
    """The ask, or None where Treadle does not know the method.

    Raises `msgspec.ValidationError` where the parameters have another shape.
    """
    decoder = _decoders.get(method)
    return None if decoder is None else decoder.decode(params)
