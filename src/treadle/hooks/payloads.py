"""Events of hooks: what a hook is given, what it may answer, how long it may take.

Owns one frozen payload per event, which is also the JSON that a command hook reads, and one
rule per event. Invariants: new fields may be added, old ones keep their meaning; where a hook
decides whether something happens, a hook that hangs or fails means no, everywhere else it is
logged and skipped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from ..core.wire import Json
from ..tools.contract import ToolStatus

__all__ = [
    "COMMON_EVENTS",
    "LONGEST",
    "RULES",
    "AfterCompaction",
    "AfterToolCall",
    "BeforeCompaction",
    "BeforePromptBuild",
    "BeforeToolCall",
    "Hook",
    "HookAnswer",
    "HookRule",
    "OnThreadStart",
    "OnTurnEnd",
    "OnTurnStart",
    "Payload",
    "Source",
    "ToolResultReady",
]

LONGEST = 600.0
"""Seconds that no hook may exceed, whatever it was given."""

Source: TypeAlias = Literal["startup", "resume", "compact"]


class OnThreadStart(Struct, frozen=True, kw_only=True, tag_field="event", tag="thread_start"):
    """A thread is about to get its first input: ever, in this process, or since a compaction."""

    thread: str
    cwd: str
    model: str
    source: Source


class BeforeToolCall(Struct, frozen=True, kw_only=True, tag_field="event", tag="before_tool_call"):
    """A call is about to run."""

    thread: str
    turn: int
    step: int
    cwd: str
    call_id: str
    tool: str
    """The canonical id: with the namespace, where the tool has one."""
    arguments: str


class ToolResultReady(Struct, frozen=True, kw_only=True, tag_field="event", tag="tool_result"):
    """A call has a result; the result is not recorded yet."""

    thread: str
    turn: int
    step: int
    cwd: str
    call_id: str
    tool: str
    output: str
    success: bool
    arguments: str = ""
    """What the call ran with."""


class AfterToolCall(Struct, frozen=True, kw_only=True, tag_field="event", tag="after_tool_call"):
    """A call is over."""

    thread: str
    turn: int
    step: int
    cwd: str
    call_id: str
    tool: str
    output: str
    success: bool
    seconds: float
    arguments: str = ""
    """What the call ran with; its own where it did not run."""
    status: ToolStatus = "ok"
    error: str = ""
    """What the tool raised, or why it was not run."""
    denied_reason: str = ""


class BeforePromptBuild(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="before_prompt_build"
):
    """An input is about to be sent to the model."""

    thread: str
    cwd: str
    model: str
    prompt: str
    """The text for the model, where the harness writes it in another form."""
    instructions: str = ""
    """The developer instructions: what the host demands, and what the context engine adds now."""
    resumed: bool = False
    """Whether the thread has turns already."""


class BeforeCompaction(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="before_compaction"
):
    """The view is about to be compacted."""

    thread: str
    tokens: int
    trigger: Literal["auto", "manual", "overflow"]


class AfterCompaction(Struct, frozen=True, kw_only=True, tag_field="event", tag="after_compaction"):
    """The view was compacted."""

    thread: str
    tokens_before: int
    tokens_after: int


class OnTurnStart(Struct, frozen=True, kw_only=True, tag_field="event", tag="turn_start"):
    """A turn begins."""

    thread: str
    turn: str
    model: str


class OnTurnEnd(Struct, frozen=True, kw_only=True, tag_field="event", tag="turn_end"):
    """A turn is over."""

    thread: str
    turn: str
    status: str
    text: str
    usage: Json


Payload: TypeAlias = (
    OnThreadStart
    | BeforeToolCall
    | ToolResultReady
    | AfterToolCall
    | BeforePromptBuild
    | BeforeCompaction
    | AfterCompaction
    | OnTurnStart
    | OnTurnEnd
)

COMMON_EVENTS: dict[str, type[Payload]] = {
    "SessionStart": OnThreadStart,
    "UserPromptSubmit": BeforePromptBuild,
    "PreToolUse": BeforeToolCall,
    "PostToolUse": ToolResultReady,
    "PreCompact": BeforeCompaction,
    "PostCompact": AfterCompaction,
    "Stop": OnTurnEnd,
}
"""The events by the names that other agents use."""


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What a hook may answer. Everything is optional; what an event cannot use is ignored."""

    block: str | None = None
    """Do not go on, for this reason. Before a call, a compaction or a prompt."""
    parameters: dict[str, Json] | UnsetType = UNSET
    """Put these over the call's own. Before a call."""
    output: str | None = None
    """Record this instead. When a result is ready."""
    context: str | None = None
    """Tell the model this with the input. Before a prompt is built, when a thread starts."""


Hook: TypeAlias = Callable[[Any], Awaitable[HookAnswer | None]]
"""Called with the payload of its event."""


class HookRule(Struct, frozen=True, kw_only=True):
    """How the hooks of an event are run."""

    seconds: float
    """How long each may take, unless its registration says otherwise."""
    closed: bool = False
    """Whether a hook that hangs or fails keeps the thing from happening."""
    together: bool = False
    """Whether they run at the same time: they only read."""


RULES: dict[type[Payload], HookRule] = {
    OnThreadStart: HookRule(seconds=15),
    BeforePromptBuild: HookRule(seconds=15),
    BeforeToolCall: HookRule(seconds=15, closed=True),
    ToolResultReady: HookRule(seconds=15),
    BeforeCompaction: HookRule(seconds=30, closed=True),
    AfterToolCall: HookRule(seconds=30, together=True),
    AfterCompaction: HookRule(seconds=30, together=True),
    OnTurnStart: HookRule(seconds=30, together=True),
    OnTurnEnd: HookRule(seconds=30, together=True),
}
