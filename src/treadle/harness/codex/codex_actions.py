"""The commands, patches and calls of servers that Codex itself makes in a turn.

Owns which of them run, and their form as events. Invariant: a command counts as running until
Codex reports its end, or its call has a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ..event_stream import SHOWN_OUTPUT
from ..events import ToolFinished
from .protocol.types import CommandItem, FileChangeItem, McpToolItem, TurnItem, WebSearchItem

__all__ = ["CodexActions", "action_finished", "action_of", "has_succeeded"]


@dataclass(slots=True)
class CodexActions:
    """The commands and patches that Codex itself has started in one turn."""

    patches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The paths of each patch, by call."""
    interrupting: bool = False
    """Whether the turn is being interrupted: then a result does not mean that a command ended."""
    _running: dict[str, CommandItem] = field(default_factory=dict)

    @property
    def running(self) -> tuple[CommandItem, ...]:
        """Return the commands that Codex waits for, or waited for before the interruption."""
        return tuple(self._running.values())

    def start(self, item: TurnItem) -> None:
        """Note that an item has started."""
        match item:
            case CommandItem():
                self._running[item.id] = item
            case FileChangeItem():
                self.patches[item.id] = tuple(change.path for change in item.changes)

    def finish(self, name: str) -> None:
        """Note that an item has ended."""
        self._running.pop(name, None)

    def note_result(self, call_id: str | None) -> None:
        """Note that a call has its result; a command that still runs then runs on purpose."""
        if call_id is not None and not self.interrupting:
            self._running.pop(call_id, None)


def action_of(item: TurnItem) -> tuple[str, str] | None:
    """Return the name and the arguments of an action of Codex; None for other items."""
    match item:
        case CommandItem():
            return "exec_command", _json({"cmd": item.command, "workdir": item.cwd})
        case FileChangeItem():
            return "apply_patch", _json({"paths": [change.path for change in item.changes]})
        case McpToolItem():
            return f"{item.server}.{item.tool}", bytes(item.arguments).decode()
        case WebSearchItem():
            return "web_search", _json({"query": item.query})
    return None


def action_finished(item: TurnItem, name: str) -> ToolFinished:
    """Return the event that an action has ended."""
    output = getattr(item, "aggregated_output", None) or ""
    took = getattr(item, "duration_ms", None) or 0
    return ToolFinished(
        call_id=item.id,
        name=name,
        success=has_succeeded(item),
        seconds=round(took / 1000, 4),
        output=output[:SHOWN_OUTPUT],
    )


def has_succeeded(item: TurnItem) -> bool:
    """Say whether an action has done what it should."""
    status = getattr(item, "status", "completed")
    return status in ("", "completed") and not getattr(item, "exit_code", 0)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
