"""The live part: the progress of a turn, just above the input line.

Owns the running calls, the sentence being written and the clock. Invariant: it is only
drawn; whatever should stay is printed by the conversation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from prompt_toolkit.formatted_text import StyleAndTextTuples

from ...harness.events import ReasoningDelta, StepStarted, TextDelta, ToolFinished, ToolStarted
from ..activity import call_line
from ..output import one_line

__all__ = ["Live", "RunningCall"]

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A call that has no result yet."""

    name: str
    arguments: str
    began: float

    @property
    def what(self) -> str:
        """What it does."""
        return call_line(self.name, self.arguments)


@dataclass(slots=True)
class Live:
    """The current work."""

    doing: str = ""
    """Empty when nothing is."""
    began: float = 0.0
    tail: str = ""
    calls: dict[str, RunningCall] = field(default_factory=dict)

    def begin(self, doing: str) -> None:
        """Start to show work."""
        self.doing, self.began = doing, time.monotonic()

    def end(self) -> None:
        """Show nothing more."""
        self.doing, self.tail = "", ""
        self.calls.clear()

    def add(self, event: object) -> None:
        """Update the state from an event."""
        match event:
            case StepStarted():
                self.doing = "waiting for the model"
            case ReasoningDelta():
                self.doing = "thinking"
            case TextDelta():
                self.doing = "writing"
            case ToolStarted(call_id=call, name=name, arguments=arguments):
                self.calls[call] = RunningCall(name, arguments, time.monotonic())
            case ToolFinished(call_id=call):
                self.calls.pop(call, None)

    def lines(self) -> StyleAndTextTuples:
        """Return the lines to draw; none when nothing runs."""
        if not self.doing:
            return []
        now = time.monotonic()
        frame = _FRAMES[int(now * 10) % len(_FRAMES)]
        shown: StyleAndTextTuples = []
        if self.tail.strip():
            shown.append(("", f"{one_line(self.tail, _WIDTH)}\n"))
        for call in self.calls.values():
            line = one_line(call.what, _WIDTH)
            shown.append(("ansicyan", f"{frame} {line} · {now - call.began:.0f} s\n"))
        if not self.calls:
            shown.append(("ansicyan", f"{frame} {self.doing} · {now - self.began:.0f} s\n"))
        return shown
