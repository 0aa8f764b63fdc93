"""Matching: which tools a hook is for.

Owns the patterns: globs over canonical tool ids, alternatives parted by ``|``, and the
names that other agents give to such tools. Invariant: no pattern at all matches every call.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

__all__ = ["COMMON_NAMES", "matches"]

COMMON_NAMES: dict[str, str] = {
    "exec_command": "Bash",
    "shell": "Bash",
    "shell_command": "Bash",
    "local_shell": "Bash",
    "apply_patch": "Edit",
}
"""What hooks written for other agents call our tools."""

_ALSO = {"Write": "Edit", "MultiEdit": "Edit"}
"""Several tools elsewhere, one here."""


def matches(tool: str, patterns: Iterable[str]) -> bool:
    """Whether a hook with these patterns is for calls of `tool`."""
    wanted = [each.strip() for pattern in patterns for each in pattern.split("|")]
    return not wanted or any(_fits(tool, each) for each in wanted)


def _fits(tool: str, pattern: str) -> bool:
    return fnmatchcase(tool, pattern) or COMMON_NAMES.get(tool) == _ALSO.get(pattern, pattern)
