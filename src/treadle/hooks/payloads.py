"""Payloads: what hooks are told.

Owns one frozen value per event, which is also the JSON a command hook reads.
Invariant: new fields may be added, old ones keep their meaning.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from ..core.wire import Json
from ..tools.contract import ToolStatus

__all__ = [
    "AfterCompaction",
    "AfterToolCall",
    "BeforeCompaction",
    "BeforePromptBuild",
    "BeforeToolCall",
    "Payload",
    "Source",
    "ThreadStarted",
    "ToolResultReady",
    "TurnEnded",
    "TurnStarted",
]


Source: TypeAlias = Literal["startup", "resume", "compact"]


class ThreadStarted(Struct, frozen=True, kw_only=True, tag_field="event", tag="thread_start"):
    """A thread is about to hear its first input: ever, in this process, or since it was folded."""

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
    """A call has answered; the answer is not recorded yet."""

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
    """An input is about to be put before the model."""

    thread: str
    cwd: str
    model: str
    prompt: str
    """What the model will be told, where the harness puts it into other words."""
    instructions: str = ""
    """What the context engine, or the harness for it, adds to the developer's words."""
    resumed: bool = False
    """Whether the thread has turns already."""


class BeforeCompaction(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="before_compaction"
):
    """The view is about to be folded."""

    thread: str
    tokens: int
    trigger: Literal["auto", "manual", "overflow"]


class AfterCompaction(Struct, frozen=True, kw_only=True, tag_field="event", tag="after_compaction"):
    """The view was folded."""

    thread: str
    tokens_before: int
    tokens_after: int


class TurnStarted(Struct, frozen=True, kw_only=True, tag_field="event", tag="turn_start"):
    """A turn begins."""

    thread: str
    turn: str
    model: str


class TurnEnded(Struct, frozen=True, kw_only=True, tag_field="event", tag="turn_end"):
    """A turn is over."""

    thread: str
    turn: str
    status: str
    text: str
    usage: Json


Payload: TypeAlias = (
    ThreadStarted
    | BeforeToolCall
    | ToolResultReady
    | AfterToolCall
    | BeforePromptBuild
    | BeforeCompaction
    | AfterCompaction
    | TurnStarted
    | TurnEnded
)
