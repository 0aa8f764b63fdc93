"""The live part: the progress of a turn, just above the input line.

Owns the running calls with the last lines that they printed, the sentence being written and
the clock. Invariant: it is only drawn, and each of its lines fits the terminal; whatever
should stay is printed by the conversation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples

from ...harness.events import (
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from ..activity import call_line
from ..output import one_line
from .fitting import fit

__all__ = ["Live", "RunningCall", "elapsed"]

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TAIL_LINES = 4
_TAIL_CHARACTERS = 2_000
_DIM = "fg:ansibrightblack"


@dataclass(slots=True)
class RunningCall:
    """A call that has no result yet."""

    name: str
    arguments: str
    began: float
    printed: str = ""
    """The end of what it has printed."""

    @property
    def what(self) -> str:
        """What it does."""
        return call_line(self.name, self.arguments)

    @property
    def tail(self) -> list[str]:
        """Return the last lines that it printed."""
        lines = [line for line in self.printed.split("\n") if line.strip()]
        return lines[-_TAIL_LINES:]


@dataclass(slots=True)
class Live:
    """The current work."""

    doing: str = ""
    """Empty when nothing is."""
    began: float = 0.0
    tail: str = ""
    calls: dict[str, RunningCall] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _held: float | None = None
    """Since when the user is asked."""

    def begin(self, doing: str) -> None:
        """Start to show work."""
        self.doing, self.began = doing, self.clock()

    def end(self) -> None:
        """Show nothing more."""
        self.doing, self.tail = "", ""
        self.calls.clear()

    def hold(self) -> None:
        """Stop the clocks while the user is asked something."""
        self._held = self.clock() if self._held is None else self._held

    def release(self) -> None:
        """Let the clocks go on where they stopped."""
        if self._held is not None:
            waited, self._held = self.clock() - self._held, None
            self.began += waited
            for call in self.calls.values():
                call.began += waited

    @property
    def seconds(self) -> float:
        """Return how long the work has run."""
        return self.clock() - self.began if self.doing else 0.0

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
                self.calls[call] = RunningCall(name, arguments, self.clock())
            case ToolProgress(call_id=call, text=text) if call in self.calls:
                running = self.calls[call]
                running.printed = (running.printed + text)[-_TAIL_CHARACTERS:]
            case ToolFinished(call_id=call):
                self.calls.pop(call, None)

    def lines(self) -> StyleAndTextTuples:
        """Return the lines to draw; none when nothing runs."""
        if not self.doing:
            return []
        now, columns = self.clock(), get_app().output.get_size().columns - 1
        frame = _FRAMES[int(now * 10) % len(_FRAMES)]
        shown: StyleAndTextTuples = []
        if self.tail.strip():
            shown.append(("", fit(one_line(self.tail, columns), columns) + "\n"))
        for call in self.calls.values():
            shown += _call_lines(call, frame, now, columns)
        if not self.calls:
            clock = f" · {elapsed(now - self.began)} · Esc interrupts"
            shown.append(("ansicyan", fit(f"{frame} {self.doing}{clock}", columns) + "\n"))
        return shown


def _call_lines(call: RunningCall, frame: str, now: float, columns: int) -> StyleAndTextTuples:
    clock = f" · {elapsed(now - call.began)}"
    what = fit(one_line(call.what, columns), columns - len(clock) - 2)
    shown: StyleAndTextTuples = [("ansicyan", f"{frame} {what}{clock}\n")]
    for line in call.tail:
        shown.append((_DIM, fit(f"  {one_line(line, columns)}", columns) + "\n"))
    return shown


def elapsed(seconds: float) -> str:
    """Return how long something has taken."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes} min {left:02d} s"
