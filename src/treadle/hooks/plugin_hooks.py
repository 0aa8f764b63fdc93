"""Hooks of plug-ins: what other agents run around a call, as hooks of the user's own.

Owns the translation of one hook. Invariants: a hook is taken with all that it says or not at all;
its command is a program with words, never a line for a shell, so that what the user reads is
what runs.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ..config.settings import HookSettings
from ..core.errors import ConfigError
from ..core.typed import convert
from ..skills.plugin_directory import PluginHook
from .hook_files import check_own_command
from .payloads import COMMON_EVENTS

__all__ = ["PLUGIN_ROOTS", "own_hook"]

PLUGIN_ROOTS = ("${CLAUDE_PLUGIN_ROOT}", "${PLUGIN_ROOT}", "${CODEX_PLUGIN_ROOT}")
"""What stands for the directory of a plug-in."""

_SHELL = re.compile(r"[|&;<>()$`*?\[\]{}~#!\n]")
"""What only a shell understands."""
_TOOL = re.compile(r"[A-Za-z0-9_-]+(\.\*)?")
_OF_CALLS = ("PreToolUse", "PostToolUse")
_LONGEST = 600


def own_hook(hook: PluginHook, directory: Path) -> HookSettings:
    """Return a hook of a plug-in as one of the user's. Raises `ConfigError` with what hinders."""
    if hook.event not in COMMON_EVENTS:
        raise ConfigError(f"there is no event {hook.event[:60]!r} here")
    command = _command(hook.command, directory)
    check_own_command(hook.event, command)
    timeout = None if hook.timeout is None else min(max(hook.timeout, 1), _LONGEST)
    tools = _tools(hook.matcher)
    if tools and hook.event not in _OF_CALLS:
        raise ConfigError(f"hooks of {hook.event} cannot be chosen by {hook.matcher[:80]!r} here")
    told = {"event": hook.event, "command": command, "tools": tools, "timeout": timeout}
    settings: HookSettings = convert(told, HookSettings)
    return settings


def _command(text: str, directory: Path) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"its command cannot be read: {error}") from error
    filled = []
    for word in words:
        for root in PLUGIN_ROOTS:
            word = word.replace(root, "\0")  # noqa: PLW2901
        if _SHELL.search(word):
            raise ConfigError("its command is a line for a shell; put it into a script")
        filled.append(word.replace("\0", str(directory)))
    if not filled:
        raise ConfigError("it has no command")
    return tuple(filled)


def _tools(matcher: str) -> tuple[str, ...]:
    """Return the globs for a matcher, which is a regular expression of others."""
    if matcher in ("", "*", ".*"):
        return ()
    parts = matcher.removeprefix("^").removesuffix("$").split("|")
    if not all(map(_TOOL.fullmatch, parts)):
        raise ConfigError(f"its matcher {matcher[:80]!r} is more than names with '|' between")
    return tuple(part.replace(".*", "*") for part in parts)
