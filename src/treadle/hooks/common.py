"""The common form: events and answers as hooks written for other agents know them.

Owns the names (``PreToolUse`` and its like), the fields of what such a hook reads and the
meaning of what it writes. Invariant: a hook in this form can do no more than one in ours.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..core.errors import HookFailed
from ..core.wire import UNREADABLE, Json, json_bytes
from .answers import Answer
from .payloads import (
    AfterCompaction,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    Payload,
    ThreadStarted,
    ToolResultReady,
    TurnEnded,
)

__all__ = ["COMMON_EVENTS", "common_answer", "common_event", "common_no"]

COMMON_EVENTS: dict[str, type[Payload]] = {
    "SessionStart": ThreadStarted,
    "UserPromptSubmit": BeforePromptBuild,
    "PreToolUse": BeforeToolCall,
    "PostToolUse": ToolResultReady,
    "PreCompact": BeforeCompaction,
    "PostCompact": AfterCompaction,
    "Stop": TurnEnded,
}
"""The common names of events, and what they are here."""

_NAMES = {payload: name for name, payload in COMMON_EVENTS.items()}
_SAME = ("cwd", "model", "prompt", "source")
"""Fields that have the same name in both forms."""


class _Specific(Struct, frozen=True, rename="camel"):
    permission_decision: Literal["allow", "deny", "ask"] | None = None
    permission_decision_reason: str = ""
    updated_input: dict[str, Any] | None = None
    additional_context: str = ""


class _Output(Struct, frozen=True, rename="camel"):
    goes_on: bool = msgspec.field(default=True, name="continue")
    stop_reason: str = ""
    decision: Literal["approve", "allow", "block", "deny"] | None = None
    reason: str = ""
    hook_specific_output: _Specific = _Specific()

    @property
    def no(self) -> str | None:
        """Why not, if it says no."""
        specific = self.hook_specific_output
        if not self.goes_on:
            return self.stop_reason or "a hook said stop"
        if self.decision in ("block", "deny"):
            return self.reason or "a hook said no"
        if specific.permission_decision in ("deny", "ask"):
            # Nobody can be asked on behalf of a hook; what it would not allow stays undone.
            return specific.permission_decision_reason or "a hook does not allow it"
        return None


def common_event(payload: Payload) -> bytes:
    """What a hook reads about an event."""
    told = {
        "session_id": payload.thread,
        "hook_event_name": _NAMES[type(payload)],
        "transcript_path": None,
        "permission_mode": "default",
        **{name: getattr(payload, name) for name in _SAME if hasattr(payload, name)},
    }
    if turn := getattr(payload, "turn", None):
        told["turn_id"] = str(turn)
    return json_bytes({**told, **_of_its_own(payload)})


def common_answer(out: bytes, payload: Payload) -> Answer | None:
    """What a hook means with its standard output. Raises `HookFailed`."""
    text = out.decode(errors="replace").strip()
    if not text.startswith("{"):
        return _plain(text, payload)
    try:
        said = msgspec.json.decode(text, type=_Output)
    except UNREADABLE as error:
        raise HookFailed(f"it answered what is no hook output: {error}") from error
    specific = said.hook_specific_output
    if said.no is not None:
        return common_no(said.no, payload)
    if isinstance(payload, ToolResultReady):
        return _with(payload, specific.additional_context)
    return Answer(
        parameters=_parameters(specific.updated_input, payload),
        context=specific.additional_context or None,
    )


def common_no(reason: str, payload: Payload) -> Answer:
    """What it means that a hook says no: a call that has run is commented on instead."""
    if isinstance(payload, ToolResultReady):
        return _with(payload, reason) or Answer()
    return Answer(block=reason)


def _plain(text: str, payload: Payload) -> Answer | None:
    """What a hook means that writes plain words: something to know, where that can be told."""
    if text and isinstance(payload, ThreadStarted | BeforePromptBuild):
        return Answer(context=text)
    return None


def _with(payload: ToolResultReady, words: str) -> Answer | None:
    return Answer(output=f"{payload.output}\n\n{words}") if words else None


def _parameters(updated: dict[str, Any] | None, payload: Payload) -> dict[str, Json] | UnsetType:
    from .familiar import unfamiliar

    if updated is None or not isinstance(payload, BeforeToolCall):
        return UNSET
    return unfamiliar(payload.tool, payload.arguments, updated)


def _of_its_own(payload: Payload) -> dict[str, Any]:
    from .familiar import familiar

    match payload:
        case BeforeToolCall() | ToolResultReady():
            name, given = familiar(payload.tool, payload.arguments)
            told = {"tool_name": name, "tool_input": given, "tool_use_id": payload.call_id}
            if isinstance(payload, ToolResultReady):
                told["tool_response"] = {"output": payload.output, "success": payload.success}
            return told
        case BeforeCompaction():
            return {"trigger": "manual" if payload.trigger == "manual" else "auto"}
        case TurnEnded():
            return {"stop_hook_active": False, "last_assistant_message": payload.text}
        case _:
            return {}
