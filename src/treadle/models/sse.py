"""Server-sent events: chunks of bytes in, batches of payloads out.

Owns the framing of an event stream, not its content. Invariant: how the stream was cut
into chunks never changes the events. A chunk gives one list, so that thousands of deltas
in it cost one step of the loop.
"""

from __future__ import annotations

import re

from .transport.errors import TransportError

__all__ = ["LARGEST_EVENT", "LARGEST_STREAM", "EventParser", "EventTooLarge", "StreamTooLarge"]

LARGEST_EVENT = 64 * 1024 * 1024
"""Bytes of one event; an image in base64 fits many times."""
LARGEST_STREAM = 256 * 1024 * 1024
"""Bytes of a stream, all events together."""

_BOM = b"\xef\xbb\xbf"

# Nearly every event is one `data` line, alone or behind one `event` line. Splitting
# at such events leaves nothing in between, unless there is one of another shape.
_PLAIN = rb"(?m)^(?:event:[^\n]*\n)?data: ([^\n]*)\n\n"


class EventTooLarge(TransportError):
    """One event is larger than the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__("", f"an event is larger than {limit} bytes; allow more or ask for less")


class StreamTooLarge(TransportError):
    """All events together are larger than the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__("", f"the answer is larger than {limit} bytes; ask for less at once")


class EventParser:
    """Collects the `data` of each event; other fields and comments are dropped.

    Lines may end in LF, CRLF or CR. Data of several lines is joined with LF.
    """

    def __init__(self, limit: int = LARGEST_EVENT, total: int = LARGEST_STREAM) -> None:
        self._limit, self._total = limit, total
        self._left = total
        self._start: bytes | None = b""
        self._after_cr = False
        # An event that is not complete yet. Bytes that come one at a time must not cost
        # an object each.
        self._held = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the events that `chunk` completes, oldest first. Raises if there is too much."""
        self._left -= len(chunk)
        if self._left < 0:
            raise StreamTooLarge(self._total)
        if self._start is not None:
            chunk = self._skip_bom(chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._normalise_line_ends(chunk)
        if not self._held:
            chunk = chunk.lstrip(b"\n")
        if not chunk:
            return []
        if not self._ends_an_event(chunk):
            self._keep(chunk)
            return []
        if self._held:
            self._held += chunk
            chunk = bytes(self._held)
            self._held.clear()
        payloads, rest = self._parse(chunk)
        if rest:
            self._keep(rest)
        return payloads

    def finish(self) -> list[bytes]:
        """Return the event that the end of the stream completes, if any."""
        if self._start:
            self._keep(self._start)
        self._start = None
        block = bytes(self._held)
        self._held.clear()
        return self._parse_blocks([block])

    def _skip_bom(self, chunk: bytes) -> bytes:
        assert self._start is not None
        chunk = self._start + chunk
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._start = chunk
            return b""
        self._start = None
        return chunk.removeprefix(_BOM)

    def _normalise_line_ends(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if chunk.endswith(b"\r"):
            self._after_cr = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _ends_an_event(self, chunk: bytes) -> bool:
        if b"\n\n" in chunk:
            return True
        return chunk.startswith(b"\n") and self._held.endswith(b"\n")

    def _keep(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) - piece.endswith(b"\n") > self._limit:
            raise EventTooLarge(self._limit)

    def _parse(self, stream: bytes) -> tuple[list[bytes], bytes]:
        """Return the payloads of the complete events, and what is left."""
        if len(stream) <= self._limit:
            parts = re.split(_PLAIN, stream)
            *gaps, rest = parts[::2]
            if not any(gaps) and b"\n\n" not in rest:
                return parts[1::2], rest.lstrip(b"\n")
        *blocks, rest = stream.split(b"\n\n")
        return self._parse_blocks(blocks), rest.lstrip(b"\n")

    def _parse_blocks(self, blocks: list[bytes]) -> list[bytes]:
        if any(len(block.strip(b"\n")) > self._limit for block in blocks):
            raise EventTooLarge(self._limit)
        return [data for data in map(_event_data, blocks) if data is not None]


def _event_data(block: bytes) -> bytes | None:
    """Return the joined data lines of one event; None if it has none."""
    lines = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None
