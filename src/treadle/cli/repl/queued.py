"""Queued messages: what was said to a running turn and the model has not read yet.

Invariant: a message is read by the model or comes back to the line, never both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prompt_toolkit.formatted_text import StyleAndTextTuples

from ...log.thread_log import ThreadLog
from ..output import one_line
from .fitting import fit

__all__ = ["QueuedMessages"]

_MOST_SHOWN = 3


@dataclass(slots=True)
class QueuedMessages:
    """The messages that wait, the oldest first."""

    log: ThreadLog
    _waiting: dict[str, str] = field(init=False, default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, key: str, line: str) -> None:
        """Add a message that was just said."""
        self._waiting[key] = line

    async def take_read(self) -> list[str]:
        """Return the messages that the model has read meanwhile, and forget them."""
        if not self._waiting:
            return []
        left = {message.key for message in await self.log.inbox()}
        read = [line for key, line in self._waiting.items() if key not in left]
        self._waiting = {key: line for key, line in self._waiting.items() if key in left}
        return read

    async def take_back(self) -> str:
        """Take the newest message back; return it, or nothing if the model has read it."""
        while self._waiting:
            key, line = self._waiting.popitem()
            if await self.log.withdraw(key):
                return line
        return ""

    async def take_all_back(self) -> str:
        """Take all messages back; return them in their order."""
        lines: list[str] = []
        while line := await self.take_back():
            lines.insert(0, line)
        return "\n".join(lines)

    def lines(self, columns: int) -> StyleAndTextTuples:
        """Return the lines to draw."""
        shown: StyleAndTextTuples = []
        for line in list(self._waiting.values())[-_MOST_SHOWN:]:
            told = f"queued: {one_line(line, columns)} · Up takes it back"
            shown.append(("fg:ansibrightblack", fit(told, columns) + "\n"))
        return shown
