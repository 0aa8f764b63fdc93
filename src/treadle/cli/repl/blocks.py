"""Blocks: split a stream of Markdown into complete pieces that can be printed.

Invariant: the blocks and the rest, one after another, are the text that came in, but
for blank lines between them; a code block is never cut.
"""

from __future__ import annotations

import re

__all__ = ["Blocks"]

_SHOWN = 1_000
"""The largest number of pieces of an unfinished line that are examined."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Blocks:
    """Collects text until a block is complete."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._pieces: list[str] = []
        """Of the line that is being written."""
        self._fence = ""

    @property
    def tail(self) -> str:
        """Return the unfinished line."""
        partial = "".join(self._pieces[:_SHOWN])
        return partial or (self._lines[-1] if self._lines else "")

    def feed(self, text: str) -> list[str]:
        """Add text; return the blocks that are complete now."""
        *lines, partial = text.split("\n")
        if lines:
            lines[0] = "".join((*self._pieces, lines[0]))
            self._pieces = []
        if partial:
            self._pieces.append(partial)
        return [block for line in lines if (block := self._take(line))]

    def rest(self) -> str:
        """Return the rest at the end of the stream."""
        left = "\n".join([*self._lines, "".join(self._pieces)]).strip("\n")
        self._lines, self._pieces, self._fence = [], [], ""
        return left

    def _take(self, line: str) -> str:
        fence = _FENCE.match(line)
        if self._fence:
            closes = fence is not None and fence[1].startswith(self._fence)
            if closes and not line.strip().strip(self._fence[0]):
                self._fence = ""
        elif fence is not None:
            self._fence = fence[1]
        elif not line.strip():
            return self._take_block()
        self._lines.append(line)
        return ""

    def _take_block(self) -> str:
        block, self._lines = "\n".join(self._lines), []
        return block
