"""The tool seam: what a model may call, and what a call gets to work with.

Owns the `Tool` Protocol and its values. Invariants: a tool never raises for what went
wrong in the world (a bad argument, a failed command, a missing file): it says so in its
result; and a call that is cancelled leaves nothing running that it started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ..core.items import CustomToolCall, FunctionCall, LocalShellCall, Output
from ..core.specs import ToolSpec
from ..sandbox.approvals import ApprovalPolicy, Ask, Decision
from ..sandbox.memory import Approvals
from ..sandbox.policy import SandboxPolicy
from .evidence import Media, Sent
from .executor import Bounds, ToolExecutor

__all__ = [
    "Abortable",
    "Answers",
    "AskModel",
    "CallItem",
    "Choice",
    "Consultation",
    "Details",
    "Kept",
    "Progress",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "ToolStatus",
    "UserQuestion",
    "aborted_words",
    "is_replay_safe",
    "tool_id",
]

CallItem: TypeAlias = FunctionCall | CustomToolCall | LocalShellCall
"""The items that ask for a tool."""


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call of a tool."""

    call_id: str
    name: str
    namespace: str | None = None
    arguments: str = ""
    """JSON text, or a freeform tool's raw input."""
    item: CallItem


def tool_id(call: ToolCall) -> str:
    """The canonical id of the tool that is called: with its namespace, where it has one."""
    return f"{call.namespace}.{call.name}" if call.namespace else call.name


ToolStatus: TypeAlias = Literal["ok", "error", "blocked"]


class Details(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a call went, for hosts and hooks; the model reads the output."""

    status: ToolStatus
    error: str = ""
    """What the tool raised, or why it was not run."""
    denied_reason: str = ""
    """Who did not want it, such as ``before-tool-call``."""


class ToolResult(Struct, frozen=True):
    """What a call answers the model, and whether it did what was asked."""

    output: Output
    success: bool = True
    stop: bool = False
    """The user wants the turn to end with this call."""
    sent: tuple[Sent, ...] = ()
    """What the call has told others, which nobody can take back."""
    media: tuple[Media, ...] = ()
    """What the call has made for the reply of the turn to carry."""
    details: Details | None = None
    """None: as `success` says."""

    @property
    def status(self) -> ToolStatus:
        """How the call went."""
        if self.details is not None:
            return self.details.status
        return "ok" if self.success else "error"


class Progress(Struct, frozen=True):
    """Something a person may want to see while a call runs; the model never does."""

    call_id: str
    text: str


class Choice(Struct, frozen=True):
    """One answer the user may pick."""

    label: str
    description: str


class UserQuestion(Struct, frozen=True, kw_only=True):
    """A question a model has for the user, who may always answer in other words."""

    id: str
    header: str
    question: str
    options: tuple[Choice, ...]


Answers: TypeAlias = dict[str, tuple[str, ...]] | None
"""The user's answers by question id, or None when the questions were dismissed."""

Consultation: TypeAlias = Callable[[tuple[UserQuestion, ...]], Awaitable[Answers]]
"""Puts questions to the user."""


class AskModel(Protocol):
    """Asks the thread's model something outside the conversation."""

    async def __call__(self, prompt: str, *, instructions: str = "") -> str:
        """The model's answer, with no tools and no trace in the log. Raises `TreadleError`."""
        ...


class Kept(Protocol):
    """Bytes that stay with the thread for good, under handles a model can read back."""

    async def put(self, data: bytes) -> str:
        """Keep `data`; the same bytes always get the same handle."""
        ...

    async def get(self, handle: str) -> bytes:
        """The bytes under `handle`. Raises `NotFound`."""
        ...


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
    kept: Kept
    ask: Callable[[Ask], Awaitable[Decision]]
    """Ask the host; waits for the answer."""
    show: Callable[[Progress], None]
    consult: Consultation | None = None
    """None where nobody can be asked."""
    complete: AskModel | None = None
    """None where no model can be asked."""
    room: int | None = None
    """Bytes of a result that reach the model; what is longer loses its middle."""
    witness: Callable[[ToolCall, ToolResult], None] | None = None
    """Told of what a tool returned, before any hook can change it."""

    @property
    def bounds(self) -> Bounds:
        """What calls may touch."""
        return Bounds(policy=self.policy, workspace=self.cwd)


class Tool(Protocol):
    """Something a model may call.

    Calls of a tool that is `parallel` may run beside other such calls; any other call
    of a step runs alone. `spec` never changes while a thread is open.
    """

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        ...

    @property
    def parallel(self) -> bool:
        """Whether calls may run beside other calls; true for tools that only read."""
        ...

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Do what was asked."""
        ...


def is_replay_safe(tool: Tool) -> bool:
    """Whether a call of `tool` leaves the world as it was, so that it may happen twice.

    A tool says so with an attribute ``replay_safe``; one that does not is taken to act.
    """
    return bool(getattr(tool, "replay_safe", False))


@runtime_checkable
class Abortable(Protocol):
    """A tool that says in its own words that a call was aborted."""

    def aborted(self, call: ToolCall, seconds: float) -> str:
        """The output of a call that was aborted after `seconds`."""
        ...


def aborted_words(tool: Tool | None, call: ToolCall, seconds: float) -> str:
    """What the model reads of a call that was aborted after `seconds`."""
    candidate: object = tool
    if isinstance(candidate, Abortable):
        return candidate.aborted(call, seconds)
    return f"aborted by user after {seconds:.1f}s"
