"""The common form: events and answers as hooks written for other agents know them.

Owns the fields that such a hook reads, the meaning of what it writes, and the translation of
calls of our tools. Invariants: a hook in this form can do no more than one in ours; a call
whose parameters no hook changes stays as it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..core.errors import HookFailed
from ..core.typed import decode_json
from ..core.wire import UNREADABLE, Json, json_bytes
from .hooks import COMMON_NAMES
from .payloads import (
    COMMON_EVENTS,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    HookAnswer,
    OnThreadStart,
    OnTurnEnd,
    Payload,
    ToolResultReady,
)

__all__ = [
    "call_from_common",
    "call_to_common",
    "encode_event",
    "parse_output",
    "refusal",
]

_EVENT_NAMES = {payload: name for name, payload in COMMON_EVENTS.items()}
_SAME = ("cwd", "model", "prompt", "source")
"""Fields that have the same name in both forms."""
_COMMAND = "command"
"""Where other agents put what is run or patched."""
_OWN_NAMES = {"exec_command": "cmd", "apply_patch": "input"}
"""Tools of ours that use another name for it."""


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
    def refusal(self) -> str | None:
        """Return why the hook refuses, if it does."""
        specific = self.hook_specific_output
        if not self.goes_on:
            return self.stop_reason or "a hook said stop"
        if self.decision in ("block", "deny"):
            return self.reason or "a hook said no"
        if specific.permission_decision in ("deny", "ask"):
            # Nobody can be asked on behalf of a hook; what it would not allow is not done.
            return specific.permission_decision_reason or "a hook does not allow it"
        return None


def encode_event(payload: Payload) -> bytes:
    """Return what a hook reads about an event."""
    fields = {
        "session_id": payload.thread,
        "hook_event_name": _EVENT_NAMES[type(payload)],
        "transcript_path": None,
        "permission_mode": "default",
        **{name: getattr(payload, name) for name in _SAME if hasattr(payload, name)},
    }
    if turn := getattr(payload, "turn", None):
        fields["turn_id"] = str(turn)
    return json_bytes({**fields, **_event_fields(payload)})


def parse_output(out: bytes, payload: Payload) -> HookAnswer | None:
    """Return the answer in a hook's standard output. Raises `HookFailed`."""
    text = out.decode(errors="replace").strip()
    if not text.startswith("{"):
        return _plain_text_answer(text, payload)
    try:
        output = decode_json(text, _Output)
    except UNREADABLE as error:
        raise HookFailed(f"it answered what is no hook output: {error}") from error
    specific = output.hook_specific_output
    if output.refusal is not None:
        return refusal(output.refusal, payload)
    if isinstance(payload, ToolResultReady):
        return _comment(payload, specific.additional_context)
    return HookAnswer(
        parameters=_parameters(specific.updated_input, payload),
        context=specific.additional_context or None,
    )


def refusal(reason: str, payload: Payload) -> HookAnswer:
    """Return the answer of a hook that refuses: it comments on a call that has run already."""
    if isinstance(payload, ToolResultReady):
        return _comment(payload, reason) or HookAnswer()
    return HookAnswer(block=reason)


def call_to_common(tool: str, arguments: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a call in the common form."""
    given = _parse_parameters(arguments)
    name = COMMON_NAMES.get(tool)
    if name is None:
        return tool, given
    own = _OWN_NAMES.get(tool, _COMMAND)
    others = {key: value for key, value in given.items() if key != own}
    return name, {_COMMAND: _command_text(given.get(own)), **others}


def call_from_common(tool: str, arguments: str, updated: Mapping[str, Any]) -> dict[str, Json]:
    """Return the changed parameters of a call in the tool's own form. Raises `HookFailed`."""
    changed = dict(updated)
    if tool in COMMON_NAMES and _COMMAND in changed:
        own = _OWN_NAMES.get(tool, _COMMAND)
        before = _parse_parameters(arguments).get(own)
        changed[own] = _command_like(before, changed.pop(_COMMAND))
    return {key: msgspec.Raw(json_bytes(value)) for key, value in changed.items()}


def _event_fields(payload: Payload) -> dict[str, Any]:
    match payload:
        case BeforeToolCall() | ToolResultReady():
            name, given = call_to_common(payload.tool, payload.arguments)
            fields = {"tool_name": name, "tool_input": given, "tool_use_id": payload.call_id}
            if isinstance(payload, ToolResultReady):
                fields["tool_response"] = {"output": payload.output, "success": payload.success}
            return fields
        case BeforeCompaction():
            return {"trigger": "manual" if payload.trigger == "manual" else "auto"}
        case OnTurnEnd():
            return {"stop_hook_active": False, "last_assistant_message": payload.text}
        case _:
            return {}


def _plain_text_answer(text: str, payload: Payload) -> HookAnswer | None:
    """Return the answer of a hook that writes plain text: context, where that is possible."""
    if text and isinstance(payload, OnThreadStart | BeforePromptBuild):
        return HookAnswer(context=text)
    return None


def _comment(payload: ToolResultReady, text: str) -> HookAnswer | None:
    return HookAnswer(output=f"{payload.output}\n\n{text}") if text else None


def _parameters(updated: dict[str, Any] | None, payload: Payload) -> dict[str, Json] | UnsetType:
    if updated is None or not isinstance(payload, BeforeToolCall):
        return UNSET
    return call_from_common(payload.tool, payload.arguments, updated)


def _parse_parameters(arguments: str) -> dict[str, Any]:
    """Return the parameters of a call; a freeform one has a single parameter, ``input``."""
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except UNREADABLE:
        return {"input": arguments}


def _command_text(command: Any) -> str:
    """Return a command as a user types it."""
    if not isinstance(command, list):
        return "" if command is None else str(command)
    words = [str(word) for word in command]
    return words[2] if _is_script(words) else shlex.join(words)


def _command_like(before: Any, text: Any) -> Any:
    """Return a typed command in the form that the one before had."""
    if not isinstance(before, list) or not isinstance(text, str):
        return text
    if _is_script(before):
        return [*before[:2], text]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise HookFailed(f"its command cannot be split into words: {error}") from error


def _is_script(words: list[str]) -> bool:
    return len(words) == 3 and words[1] in ("-c", "-lc")
