"""Familiar calls: our tools as hooks written for other agents know them.

Owns the way of a call into their words and of changed parameters back. Invariant: a call
whose parameters no hook changes is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..core.errors import HookFailed
from ..core.wire import UNREADABLE, Json, json_bytes
from .matching import COMMON_NAMES

__all__ = ["familiar", "unfamiliar"]

_COMMAND = "command"
"""Where others look for what is run or patched."""
_OWN_NAMES = {"exec_command": "cmd", "apply_patch": "input"}
"""Tools that call it otherwise."""


def familiar(tool: str, arguments: str) -> tuple[str, dict[str, Any]]:
    """The name and the parameters of a call, in common words."""
    given = _read(arguments)
    name = COMMON_NAMES.get(tool)
    if name is None:
        return tool, given
    own = _OWN_NAMES.get(tool, _COMMAND)
    told = {key: value for key, value in given.items() if key != own}
    return name, {_COMMAND: _text(given.get(own)), **told}


def unfamiliar(tool: str, arguments: str, updated: Mapping[str, Any]) -> dict[str, Json]:
    """The changed parameters of a call, in the tool's own words. Raises `HookFailed`."""
    changed = dict(updated)
    if tool in COMMON_NAMES and _COMMAND in changed:
        own = _OWN_NAMES.get(tool, _COMMAND)
        before = _read(arguments).get(own)
        changed[own] = _like(before, changed.pop(_COMMAND))
    return {key: msgspec.Raw(json_bytes(value)) for key, value in changed.items()}


def _read(arguments: str) -> dict[str, Any]:
    """The parameters of a call; a freeform one has a single parameter, ``input``."""
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except UNREADABLE:
        return {"input": arguments}


def _text(command: Any) -> str:
    """A command as it is typed."""
    import shlex

    if not isinstance(command, list):
        return "" if command is None else str(command)
    words = [str(word) for word in command]
    return words[2] if _is_script(words) else shlex.join(words)


def _like(before: Any, text: Any) -> Any:
    """A typed command in the form that the one before had."""
    import shlex

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
