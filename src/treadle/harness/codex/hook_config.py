"""The settings with which a Codex thread asks Treadle about its own tools.

Owns which of Codex's tools meet the hooks of a thread, and the hooks that Codex gets for that.
Invariants: without a hook for these tools Codex gets none; Codex trusts exactly these, by their
digests, and no other hook that it finds; a call that cannot be asked about does not run.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...hooks.hooks import Hooks
from ...hooks.payloads import AfterToolCall, BeforeToolCall, ToolResultReady

__all__ = ["CODEX_TOOLS", "TYPING", "WatchedTools", "client_command", "hook_config"]

CODEX_TOOLS = {"Bash": "exec_command", "apply_patch": "apply_patch", "view_image": "view_image"}
"""Our names of Codex's own tools, by the names that its hooks use."""
TYPING = "write_stdin"
"""The tool that types into a running command; Codex asks no hook about it."""

_PATCH, _SHELL, _OF_SERVERS = "apply_patch", "Bash", "mcp__.*"
_SECONDS = 86_400
"""Longer than any hook may take: when Codex stops waiting, it runs the call."""
_LABELS = {
    "PreToolUse": "pre_tool_use",
    "PostToolUse": "post_tool_use",
    "SessionStart": "session_start",
}
_STATE_KEY = "/<session-flags>/config.toml:{label}:0:0"
"""How Codex names the first hook of an event in the settings of a thread."""


class WatchedTools(Struct, frozen=True):
    """Which of Codex's own tools meet hooks, by the names of Codex's hooks."""

    before: tuple[str, ...] = ()
    """Those that are asked about before they run."""
    result: tuple[str, ...] = ()
    """Those whose output a hook may replace."""
    reported: tuple[str, ...] = ()
    """Those whose end hooks want to know, by our names."""
    typing: bool = False
    """Whether hooks want to decide what is typed into a running command."""

    @property
    def is_asked(self) -> bool:
        """Say whether Codex must be given hooks; the ends of calls it reports anyway."""
        return bool(self.before or self.result)

    @property
    def fingerprint(self) -> str:
        """Return a text that is the same for hooks that watch the same tools; else empty."""
        if not self.is_asked:
            return ""
        return f"{','.join(self.before)};{','.join(self.result)}"

    @classmethod
    def of(cls, hooks: Hooks) -> WatchedTools:
        """Return the tools that the hooks of a thread watch."""
        before = _find_watched(hooks, BeforeToolCall)
        if _PATCH in before and _SHELL not in before:
            # A patch may also be a command line.
            before = (_SHELL, *before)
        ours = (*CODEX_TOOLS.values(), TYPING)
        events = (ToolResultReady, AfterToolCall)
        return cls(
            before=before,
            result=_find_watched(hooks, ToolResultReady),
            reported=tuple(
                tool for tool in ours if any(hooks.watches(event, tool) for event in events)
            ),
            typing=hooks.watches(BeforeToolCall, TYPING),
        )


def _find_watched(hooks: Hooks, event: type[BeforeToolCall | ToolResultReady]) -> tuple[str, ...]:
    own = tuple(name for name, ours in CODEX_TOOLS.items() if hooks.watches(event, ours))
    # The tools of MCP servers are known to Codex only.
    return (*own, _OF_SERVERS) if hooks.watches_namespaces(event) else own


def client_command(directory: Path, name: str) -> str:
    """Return the command that hands an event to the socket `name` in `directory`."""
    client = Path(__file__).with_name("hook_client.py")
    return shlex.join([sys.executable, "-I", "-S", str(client), str(directory), name])


def hook_config(watched: WatchedTools, command: str) -> dict[str, Any]:
    """Return the settings of a thread whose tools are watched; empty if none are."""
    groups: dict[str, dict[str, Any]] = {}
    if watched.before:
        # Codex runs a call whose hook failed; only this exit code keeps it from that.
        groups["PreToolUse"] = _group(f"{command} || exit 2", watched.before)
        # It runs before the first request, and so shows in time that hooks run at all.
        groups["SessionStart"] = _group(command)
    if watched.result:
        groups["PostToolUse"] = _group(command, watched.result)
    if not groups:
        return {}
    trusted = {
        _STATE_KEY.format(label=_LABELS[event]): {"trusted_hash": _digest(event, group)}
        for event, group in groups.items()
    }
    hooks = {event: [group] for event, group in groups.items()}
    return {"features.hooks": True, "hooks": {**hooks, "state": trusted}}


def _group(command: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
    group: dict[str, Any] = {
        "hooks": [{"type": "command", "command": command, "timeout": _SECONDS, "async": False}]
    }
    return {**group, "matcher": f"^({'|'.join(names)})$"} if names else group


def _digest(event: str, group: dict[str, Any]) -> str:
    """Return the digest by which Codex recognises a hook that was trusted."""
    identity = {"event_name": _LABELS[event], **group}
    data = msgspec.json.encode(identity, order="sorted")
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
