"""Acts: the commands and patches of Codex's own that a turn has begun.

Owns what is known of them before they are over. Invariant: a command counts as running
until Codex says that it has ended, or its call has a result of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .protocol.items import CommandItem, FileChangeItem, TurnItem

__all__ = ["CodexActions"]


@dataclass(slots=True)
class CodexActions:
    """The acts of one turn."""

    patches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The paths that patches touch, by call."""
    interrupting: bool = False
    """The turn is being interrupted: results say no more than that."""
    _running: dict[str, CommandItem] = field(default_factory=dict)

    def start(self, item: TurnItem) -> None:
        """Codex has begun something."""
        match item:
            case CommandItem():
                self._running[item.id] = item
            case FileChangeItem():
                self.patches[item.id] = tuple(change.path for change in item.changes)

    def finish(self, name: str) -> None:
        """Something has ended."""
        self._running.pop(name, None)

    def note_result(self, call_id: str | None) -> None:
        """A call has its result; what still runs of it then runs on purpose."""
        if call_id is not None and not self.interrupting:
            self._running.pop(call_id, None)

    @property
    def running(self) -> tuple[CommandItem, ...]:
        """The commands that Codex waits for, or waited for when the turn was broken off."""
        return tuple(self._running.values())
