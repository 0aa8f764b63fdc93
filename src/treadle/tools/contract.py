"""The contract of tools: what a model may call, and what a call gets to work with.

Owns the `Tool` Protocol and its values. Invariants: a tool never raises for a failure of the
world (a bad argument, a failed command, a missing file): its result reports it. A call that is
cancelled leaves nothing running that it started. What a tool has sent and made is taken from
its own result; no hook adds to it or removes any of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ..core.items import CustomToolCall, FunctionCall, LocalShellCall, Output
from ..core.specs import ToolSpec
from ..sandbox.approvals import ApprovalPolicy, Approvals, Ask, Decision
from ..sandbox.policy import SandboxPolicy
from .executor import Bounds, ToolExecutor

__all__ = [
    "ABORTED",
    "Abortable",
    "AnswerOption",
    "Answers",
    "AskModel",
    "AskQuestions",
    "Blobs",
    "CallItem",
    "Details",
    "Forwards",
    "Media",
    "Progress",
    "Recipient",
    "SentMessage",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "ToolStatus",
    "UserQuestion",
    "abort_text",
    "is_replay_safe",
    "tool_id",
]

CallItem: TypeAlias = FunctionCall | CustomToolCall | LocalShellCall
"""The items that call a tool."""

ABORTED = "aborted by user after {seconds:.1f}s"
"""The output of a call that was aborted."""


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call of a tool."""

    call_id: str
    name: str
    namespace: str | None = None
    arguments: str = ""
    """JSON text, or a freeform tool's raw input."""
    item: CallItem


def tool_id(call: ToolCall) -> str:
    """Return the canonical id of the called tool: with its namespace, where it has one."""
    return f"{call.namespace}.{call.name}" if call.namespace else call.name


ToolStatus: TypeAlias = Literal["ok", "error", "blocked"]


class Recipient(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whom something was sent to."""

    channel: str
    """The name of a channel."""
    to: str = ""
    """The receiver, as the channel names it."""
    thread: str = ""
    """The conversation there, where a channel has several."""

    def __str__(self) -> str:
        return ":".join(part for part in (self.channel, self.to, self.thread) if part)


class SentMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message that a call has sent."""

    target: Recipient
    text: str = ""
    media: tuple[str, ...] = ()
    """URLs and paths of the attachments, in order."""
    message_id: str = ""
    """The channel's own proof that it has the message."""
    final: bool = True
    """Whether it is the answer; a message about the progress is not."""


class Media(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to show or play that a call has made."""

    url: str
    as_voice: bool = False


class Details(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a call ended, for hosts and hooks; the model reads the output."""

    status: ToolStatus
    error: str = ""
    """What the tool raised, or why it was not run."""
    denied_reason: str = ""
    """Who denied it, such as ``before-tool-call``."""


class ToolResult(Struct, frozen=True):
    """The output of a call for the model, and whether the call succeeded."""

    output: Output
    success: bool = True
    stop: bool = False
    """The user wants the turn to end with this call."""
    sent: tuple[SentMessage, ...] = ()
    """What the call has sent to others, which nobody can take back."""
    media: tuple[Media, ...] = ()
    """What the call has made for the reply of the turn to carry."""
    details: Details | None = None
    """None: `success` says it all."""

    @property
    def status(self) -> ToolStatus:
        """Return how the call ended."""
        if self.details is not None:
            return self.details.status
        return "ok" if self.success else "error"


class Progress(Struct, frozen=True):
    """Output for a person to see while a call runs; the model does not read it."""

    call_id: str
    text: str


class AnswerOption(Struct, frozen=True):
    """One answer that the user may choose."""

    label: str
    description: str


class UserQuestion(Struct, frozen=True, kw_only=True):
    """A question of a model to the user, who may always answer in other words."""

    id: str
    header: str
    question: str
    options: tuple[AnswerOption, ...]


Answers: TypeAlias = dict[str, tuple[str, ...]] | None
"""The user's answers by question id, or None when the questions were dismissed."""

AskQuestions: TypeAlias = Callable[[tuple[UserQuestion, ...]], Awaitable[Answers]]
"""Asks the user questions."""


class AskModel(Protocol):
    """Asks the thread's model something outside the conversation."""

    async def __call__(self, prompt: str, *, instructions: str = "") -> str:
        """Ask without tools and without a trace in the log. Raises `TreadleError`."""
        ...


class Blobs(Protocol):
    """Bytes that are stored with the thread for good, under handles that a model can read back."""

    async def put(self, data: bytes) -> str:
        """Store `data`; the same bytes always get the same handle."""
        ...

    async def get(self, handle: str) -> bytes:
        """Return the bytes under `handle`. Raises `NotFound`."""
        ...


def _drop_notice(text: str) -> None:
    """Tell nobody: the host has no place for notices."""


async def _keep_no_note(text: str) -> None:
    """Keep nothing: no log belongs to the call."""


class ToolContext(Struct, frozen=True, kw_only=True):
    """What a call gets to work with."""

    thread: str
    turn: int = 0
    step: int = 0
    cwd: Path
    """The thread's directory, as the executor knows it."""
    policy: SandboxPolicy
    approval: ApprovalPolicy
    approvals: Approvals
    """What the user has approved before."""
    executor: ToolExecutor
    blobs: Blobs
    ask_approval: Callable[[Ask], Awaitable[Decision]]
    """Asks the host whether something may run, and waits for the answer."""
    show_progress: Callable[[Progress], None]
    raise_notice: Callable[[str], None] = _drop_notice
    """Tells the user something that the model is told elsewhere."""
    ask_questions: AskQuestions | None = None
    """None where nobody can be asked."""
    ask_model: AskModel | None = None
    """None where no model can be asked."""
    output_limit: int | None = None
    """Bytes of a result that reach the model; a longer one is cut in the middle."""
    stage_result: Callable[[ToolResult], Awaitable[Callable[[], Awaitable[None]]]] | None = None
    """Makes a result durable that counts only if this process ends before the real one is there;
    returns what takes it back. None where nothing is durable."""
    note_hook: Callable[[str], Awaitable[None]] = _keep_no_note
    """Notes in the log what a hook did to the call, for people; the model does not read it."""
    on_result: Callable[[ToolCall, ToolResult], Awaitable[None]] | None = None
    """Awaited with what a tool returned, before any hook can change it."""

    @property
    def bounds(self) -> Bounds:
        """Return what calls may touch."""
        return Bounds(policy=self.policy, workspace=self.cwd)


class Tool(Protocol):
    """Something a model may call.

    Calls of a tool that is `parallel` may run beside other such calls; any other call
    of a step runs alone. `spec` never changes while a thread is open.
    """

    @property
    def spec(self) -> ToolSpec:
        """Return the specification that the model gets."""
        ...

    @property
    def parallel(self) -> bool:
        """Return whether calls may run beside other calls; true for tools that only read."""
        ...

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call."""
        ...


def is_replay_safe(tool: Tool) -> bool:
    """Return whether a call of `tool` changes nothing, so that it may happen twice.

    A tool declares it with an attribute ``replay_safe``; without one it counts as acting.
    """
    return bool(getattr(tool, "replay_safe", False))


@runtime_checkable
class Abortable(Protocol):
    """A tool that has its own text for a call that was aborted."""

    def abort_text(self, call: ToolCall, seconds: float) -> str:
        """Return the output of a call that was aborted after `seconds`."""
        ...


@runtime_checkable
class Forwards(Protocol):
    """A tool whose calls name another tool: that one is run, guarded and told of."""

    def forward(self, call: ToolCall) -> tuple[Tool, ToolCall] | None:
        """Return the tool that is meant with its call; None where there is none."""
        ...


def abort_text(tool: Tool | None, call: ToolCall, seconds: float) -> str:
    """Return what the model reads of a call that was aborted after `seconds`."""
    candidate: object = tool
    if isinstance(candidate, Abortable):
        return candidate.abort_text(call, seconds)
    return ABORTED.format(seconds=seconds)
