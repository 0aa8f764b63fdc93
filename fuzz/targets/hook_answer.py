"""Answers of hooks: in our form and the common one."""

from __future__ import annotations

from typing import Any

import msgspec

from treadle.core.errors import HookFailed
from treadle.hooks.command_hook import parse_answer
from treadle.hooks.payloads import BeforePromptBuild, BeforeToolCall, HookAnswer, ToolResultReady

__all__ = ["WORDS", "check"]

WORDS = (
    *(b'{"block":"', b'"parameters":{', b'"output":"', b'"context":"', b'"continue":false', b"}"),
    *(
        b'{"hookSpecificOutput":{"permissionDecision":"deny"',
        b'"updatedInput":{"command":"',
        b"\xff",
    ),
    *(
        b'"decision":"block"',
        b'"reason":"',
        b'"additionalContext":"',
        b"null",
        b"[",
        b"1e999",
        b"'",
    ),
)
_CALLED: dict[str, Any] = {"thread": "t", "turn": 1, "step": 1, "cwd": "/", "call_id": "c"}
_PAYLOADS = (
    BeforeToolCall(tool="shell", arguments='{"command":["ls"]}', **_CALLED),
    ToolResultReady(tool="look", arguments="{}", output="o", success=True, **_CALLED),
    BeforePromptBuild(thread="t", cwd="/", model="m", prompt="p"),
)


def check(data: bytes) -> None:
    """An answer, none, or `HookFailed`."""
    for payload in _PAYLOADS:
        for common in (False, True):
            try:
                answer = parse_answer(data, payload, common=common)
            except HookFailed:
                continue
            assert answer is None or isinstance(answer, HookAnswer)
            msgspec.json.encode(answer)
