"""Call text: what a call does, as people read it.

Owns the words for the built-in tools. Invariant: whatever a model wrote as the arguments of a
call, there is a text; whoever shows it makes it short and safe for the place where it stands.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["call_text", "patch_in"]

_BEGIN, _END = "*** Begin Patch\n", "\n*** End Patch"
_PATCHED = r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$"


def call_text(name: str, arguments: str) -> str:
    """Describe a call."""
    if patch := patch_in(name, arguments):
        return f"patch {', '.join(re.findall(_PATCHED, patch))}"
    given = _object(arguments)
    match name:
        case "apply_patch" if isinstance(given.get("paths"), list):
            return f"patch {', '.join(map(str, given['paths']))}"
        case "exec_command" | "shell_command" | "shell" | "local_shell":
            return _command_text(given.get("cmd") or given.get("command") or arguments, " ")
        case "write_stdin":
            typed = given.get("chars") or ""
            wrote = f"types {typed!r} into" if typed else "looks at"
            return f"{wrote} session {given.get('session_id')}"
        case "update_plan":
            return f"plan: {_steps(given)}"
        case "request_user_input":
            return f"asks: {_questions(given)}"
        case "view_image":
            return f"looks at {given.get('path')}"
        case _:
            return f"{name} {arguments}"


def patch_in(name: str, arguments: str) -> str | None:
    """Return the patch that a call applies, directly or through a shell."""
    if name == "apply_patch":
        text = str(_object(arguments).get("input") or arguments)
    else:
        command = _object(arguments).get("cmd") or _object(arguments).get("command") or ""
        text = _command_text(command, "\n")
        if "apply_patch" not in text:
            return None
    return _whole_patch(text)


def _whole_patch(text: str) -> str | None:
    """Return the lines from the first start of a patch to the first end after it."""
    start = 0 if text.startswith(_BEGIN) else text.find(f"\n{_BEGIN}") + 1
    end = text.find(_END, start)
    return text[start : end + len(_END)] if text.startswith(_BEGIN, start) and end >= 0 else None


def _command_text(command: object, by: str) -> str:
    """Return a command as text, whatever type the model sent."""
    return by.join(map(str, command)) if isinstance(command, list) else str(command)


def _steps(given: dict[str, Any]) -> str:
    marks = {"completed": "✓", "in_progress": "→"}
    steps = given.get("plan")
    entries = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    return ", ".join(
        f"{marks.get(str(step.get('status')), '○')} {step.get('step', '')}" for step in entries
    )


def _questions(given: dict[str, Any]) -> str:
    asked = given.get("questions")
    entries = [each for each in asked if isinstance(each, dict)] if isinstance(asked, list) else []
    return " ".join(str(each.get("question", "")) for each in entries)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
