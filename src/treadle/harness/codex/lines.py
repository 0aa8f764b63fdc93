"""The streams, and lines out of their chunks of any size.

Owns the framing: one message a line, however long, up to a stated maximum. Invariant:
each byte is looked at once for the end of its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from .errors import CodexProtocolError

__all__ = ["LONGEST_LINE", "ByteReader", "ByteWriter", "LineBuffer"]

LONGEST_LINE = 256 << 20
"""Bytes of the longest line that is read; an image or a long history fits many times."""


class ByteReader(Protocol):
    """Bytes from the other side; empty at the end."""

    async def read(self, n: int = -1, /) -> bytes:
        """Some bytes."""
        ...


class ByteWriter(Protocol):
    """Bytes to the other side."""

    def write(self, data: bytes, /) -> None:
        """Queue bytes to be sent."""
        ...

    async def drain(self) -> None:
        """Wait until there is room for more."""
        ...

    def close(self) -> None:
        """Send no more."""
        ...


class LineBuffer:
    """Collects chunks and gives back whole lines, without their ends."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._held = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that `chunk` completes. Raises `ProtocolError` beyond the maximum."""
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._hold(part)
            line = bytes(self._held)
            self._held.clear()
            if line.strip():
                yield line
        self._hold(rest)

    def _hold(self, part: bytes) -> None:
        if len(self._held) + len(part) > self._longest:
            raise CodexProtocolError(
                f"the Codex app-server sent a line of more than {self._longest} bytes; "
                "it is stopped, and the next turn starts another"
            )
        self._held += part
