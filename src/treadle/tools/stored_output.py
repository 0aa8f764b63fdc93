"""Stored output: output of any length, kept in pieces, and `read_output` to read it back.

Owns the pieces and the index that lists them; the index's handle stands for the whole.
Invariants: no more than one piece is in memory, when storing and when reading back; every
byte that was stored can be reached, by its place or by lines that match.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import msgspec
from msgspec import Struct

from ..core.errors import NotFound
from ..core.former_name import OUTPUT_KIND
from ..core.text import BYTES_PER_TOKEN, TruncationPolicy
from ..core.typed import decode_json
from ..core.wire import json_bytes
from .arguments import InvalidArguments, parse_arguments
from .contract import Blobs, ToolCall, ToolContext, ToolResult

__all__ = [
    "CAP",
    "PIECE",
    "Match",
    "OutputReader",
    "OutputWriter",
    "StoredOutput",
    "looks_binary",
    "open_output",
    "read_range",
    "search_output",
]

PIECE = 1 << 20
CAP = 1 << 28
"""Bytes that are stored of one command's output; the rest is only counted."""

_KIND = "treadle.output"
_DEFAULT_LIMIT = 16_000
_LONGEST_LINE = 1_000
_SAMPLE = 1 << 13
_REPLACEMENT = "\ufffd"


class StoredOutput(Struct, frozen=True, kw_only=True, tag=_KIND):
    """The index: which pieces make up an output."""

    size: int
    """Bytes that can be read back."""
    dropped: int = 0
    """Bytes that came after `CAP`."""
    pieces: tuple[str, ...]

    @property
    def size_text(self) -> str:
        """Return how much there is, for a model to read."""
        lost = f" ({self.dropped} more were not kept)" if self.dropped else ""
        return f"{self.size} bytes{lost}"


class _FormerOutput(StoredOutput, frozen=True, kw_only=True, tag=OUTPUT_KIND):
    """An index that was written under the former name."""


class Match(Struct, frozen=True):
    """A line that was searched for, and the byte it starts at."""

    offset: int
    line: str


class OutputWriter:
    """Stores output while it arrives."""

    def __init__(self, blobs: Blobs, *, cap: int = CAP) -> None:
        self._blobs, self._cap = blobs, cap
        self._pending = bytearray()
        self._pieces: list[str] = []
        self._dropped = 0

    async def add(self, data: bytes) -> None:
        """Take in what follows, and store each piece that is full."""
        room = self._cap - len(self._pieces) * PIECE - len(self._pending)
        self._dropped += max(len(data) - room, 0)
        self._pending += data[: max(room, 0)]
        while len(self._pending) >= PIECE:
            piece = bytes(self._pending[:PIECE])
            del self._pending[:PIECE]
            self._pieces.append(await self._blobs.put(piece))

    async def save(self) -> str:
        """Store all that has arrived until now, and return its handle."""
        last = [await self._blobs.put(bytes(self._pending))] if self._pending else []
        index = StoredOutput(
            size=len(self._pieces) * PIECE + len(self._pending),
            dropped=self._dropped,
            pieces=(*self._pieces, *last),
        )
        return await self._blobs.put(json_bytes(index))


class _Arguments(Struct, forbid_unknown_fields=True):
    handle: str
    offset: int = 0
    limit: int = _DEFAULT_LIMIT
    pattern: str | None = None


class OutputReader:
    """The code of `read_output`; a call reads no more than `policy` allows."""

    def __init__(self, policy: TruncationPolicy) -> None:
        self._most = policy.token_budget * BYTES_PER_TOKEN

    async def read_output(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Read some bytes, or search for lines."""
        try:
            arguments = parse_arguments(call.name, call.arguments, _Arguments)
            return ToolResult(await self._read(arguments, context.blobs))
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        except NotFound as error:
            return ToolResult(f"{call.name} failed: {error}", success=False)

    async def _read(self, arguments: _Arguments, blobs: Blobs) -> str:
        output = await open_output(blobs, arguments.handle)
        limit = min(max(arguments.limit, 1), self._most)
        start = arguments.offset if arguments.offset >= 0 else output.size + arguments.offset
        start = min(max(start, 0), output.size)
        if arguments.pattern is None:
            return await _read_bytes(blobs, output, start, limit)
        return await _read_matches(blobs, output, arguments.pattern, start, limit)


async def _read_bytes(blobs: Blobs, output: StoredOutput, start: int, limit: int) -> str:
    data = await read_range(blobs, output, start, limit)
    if looks_binary(data):
        # Three characters show one byte.
        data = data[: max(limit // 3, 1)]
        text = data.hex(" ")
    else:
        text = data.decode(errors="replace")
    return f"Bytes {start} to {start + len(data)} of {output.size_text}\n{text}"


async def _read_matches(
    blobs: Blobs, output: StoredOutput, pattern: str, start: int, limit: int
) -> str:
    lines: list[str] = []
    room = limit
    more = ""
    async for match in search_output(blobs, output, pattern, start=start, longest=_LONGEST_LINE):
        line = f"{match.offset}: {match.line}"
        if room < len(line.encode()):
            more = f"\nMore matches from byte {match.offset} on"
            break
        room -= len(line.encode()) + 1
        lines.append(line)
    heading = f"{len(lines)} matching lines in {output.size_text}"
    return "\n".join([heading, *lines]) + more


def looks_binary(data: bytes) -> bool:
    """Return whether `data` is no text: it has zero bytes, or hardly anything readable."""
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        return True
    text = sample.decode(errors="replace")
    return text.count(_REPLACEMENT) * 10 > len(text) * 3


async def open_output(blobs: Blobs, handle: str) -> StoredOutput:
    """Return the index under `handle`. Raises `NotFound`, also for bytes that are no index."""
    data = await blobs.get(handle)
    try:
        index = decode_json(data, StoredOutput | _FormerOutput)
    except msgspec.DecodeError:
        index = None
    # A command may print what looks like an index; only an index of ours adds up.
    if index is None or len(index.pieces) != -(-index.size // PIECE):
        raise NotFound("output", handle, "use a handle from the result of a command")
    return index


async def read_range(blobs: Blobs, output: StoredOutput, start: int, size: int) -> bytes:
    """Read `size` bytes from `start`, fewer at the end."""
    stop = min(start + size, output.size)
    found = bytearray()
    for number in range(start // PIECE, -(-stop // PIECE)):
        piece = await blobs.get(output.pieces[number])
        base = number * PIECE
        found += piece[max(start - base, 0) : stop - base]
    return bytes(found)


async def search_output(
    blobs: Blobs, output: StoredOutput, pattern: str, *, start: int = 0, longest: int
) -> AsyncIterator[Match]:
    """Yield the lines from byte `start` on that contain `pattern` in their first `longest` bytes.

    In a pattern `*` stands for any text and `|` separates alternatives. It is no regular
    expression: output is read once, whatever a model asks for.
    """
    wanted = _LineMatcher([alternative.split("*") for alternative in pattern.split("|")], longest)
    # The byte before decides whether a line begins at `start`.
    first = max(start - 1, 0) // PIECE
    lines = _LineJoiner(base=first * PIECE, longest=longest, inside=first > 0)
    for handle in output.pieces[first:]:
        data = lines.join(await blobs.get(handle))
        for match in wanted.matches(data, lines.base):
            if match.offset >= start:
                yield match
        for offset, line in lines.advance(data):
            if offset >= start and (found := wanted.match_line(line)) is not None:
                yield Match(offset, found)
    if lines.rest and lines.base >= start and (found := wanted.match_line(lines.rest)) is not None:
        yield Match(lines.base, found)


class _LineJoiner(Struct):
    """Puts lines together again that were cut by the end of a piece.

    Of a line longer than `longest` only the beginning is read.
    """

    base: int
    longest: int
    inside: bool
    """In the middle of a line that is skipped."""
    rest: bytes = b""

    def join(self, piece: bytes) -> bytes:
        """Return what to read next; it starts at `base`."""
        if not self.inside:
            return self.rest + piece
        end = piece.find(b"\n")
        skipped = len(piece) if end < 0 else end + 1
        self.inside = end < 0
        self.base += skipped
        return piece[skipped:]

    def advance(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Go on to the line that has not ended yet; yield one that is too long to wait for."""
        ended = data.rfind(b"\n") + 1
        self.base, self.rest = self.base + ended, data[ended:]
        if len(self.rest) > self.longest:
            yield self.base, self.rest
            self.base, self.rest, self.inside = self.base + len(self.rest), b"", True


class _LineMatcher(Struct):
    """Decides which lines match."""

    alternatives: list[list[str]]
    longest: int

    def matches(self, data: bytes, base: int) -> Iterator[Match]:
        """Yield the matching lines that end in `data`."""
        anchors = [max(parts, key=len).encode() for parts in self.alternatives]
        at = 0
        while at < len(data):
            hits = [hit for anchor in anchors if (hit := data.find(anchor, at)) >= 0]
            end = data.find(b"\n", min(hits)) if hits else -1
            if end < 0:
                return
            begin = data.rfind(b"\n", at, min(hits)) + 1 or at
            if (line := self.match_line(data[begin:end])) is not None:
                yield Match(base + begin, line)
            at = end + 1

    def match_line(self, data: bytes) -> str | None:
        """Return `data` as text, if it matches."""
        text = data[: self.longest].decode(errors="replace").removesuffix("\r")
        return text if any(_contains(text, parts) for parts in self.alternatives) else None


def _contains(text: str, parts: list[str]) -> bool:
    """Return whether all `parts` stand in `text`, one after the other."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
