"""The spinner: one moving line on standard error while a turn works.

Invariant: it is drawn only on a terminal and only where a line is free, and is wiped before
anything else is printed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TextIO

from .output import one_line

__all__ = ["Spinner"]

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_INTERVAL = 0.1
_WIPE = "\r\x1b[K"


class Spinner:
    """Shows what is being done, and for how long."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._doing = ""
        self._began = time.monotonic()
        self._drawn = False
        self._timer: asyncio.TimerHandle | None = None

    def show(self, doing: str) -> None:
        """Draw the line until it is wiped; a new work starts its clock."""
        if doing != self._doing:
            self._doing, self._began = doing, time.monotonic()
        if self._timer is None:
            self._draw()

    def wipe(self) -> None:
        """Remove the line, so that something else can be printed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._drawn:
            self._stream.write(_WIPE)
            self._stream.flush()
            self._drawn = False

    def _draw(self) -> None:
        import shutil  # only on a terminal: it loads every way to compress

        now = time.monotonic()
        frame = _FRAMES[int(now * 10) % len(_FRAMES)]
        clock = f" · {now - self._began:.0f} s"
        room = max(1, shutil.get_terminal_size().columns - len(clock) - 4)
        self._stream.write(f"{_WIPE}{frame} {one_line(self._doing, room)}{clock}")
        self._stream.flush()
        self._drawn = True
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._draw)
