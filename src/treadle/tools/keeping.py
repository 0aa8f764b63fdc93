"""Keeping: output of any length, stored in pieces as it arrives.

Owns the pieces and the page that lists them; the page's handle stands for the whole.
Invariant: no more than one piece is in memory, when storing and when reading back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import msgspec
from msgspec import Struct

from ..core.errors import NotFound
from ..core.former_name import OUTPUT_KIND
from ..core.wire import json_bytes
from .contract import Kept

__all__ = ["CAP", "PIECE", "Keeper", "KeptOutput", "Match", "open_kept", "read_range", "search"]

PIECE = 1 << 20
CAP = 1 << 28
"""Bytes that are kept of one command's output; what follows is only counted."""

_KIND = "treadle.output"


class KeptOutput(Struct, frozen=True, kw_only=True, tag=_KIND):
    """The page: which pieces make up an output."""

    size: int
    """Bytes that can be read back."""
    dropped: int = 0
    """Bytes that came after `CAP`."""
    pieces: tuple[str, ...]


class _FormerPage(KeptOutput, frozen=True, kw_only=True, tag=OUTPUT_KIND):
    """A page that was written under the former name."""


class Match(Struct, frozen=True):
    """A line that was looked for, and the byte it starts at."""

    offset: int
    line: str


class Keeper:
    """Stores output while it arrives."""

    def __init__(self, kept: Kept, *, cap: int = CAP) -> None:
        self._kept, self._cap = kept, cap
        self._pending = bytearray()
        self._pieces: list[str] = []
        self._dropped = 0

    async def add(self, data: bytes) -> None:
        """Take in what follows."""
        room = self._cap - len(self._pieces) * PIECE - len(self._pending)
        self._dropped += max(len(data) - room, 0)
        self._pending += data[: max(room, 0)]
        while len(self._pending) >= PIECE:
            piece = bytes(self._pending[:PIECE])
            del self._pending[:PIECE]
            self._pieces.append(await self._kept.put(piece))

    async def handle(self) -> str:
        """A handle for all that has arrived until now."""
        last = [await self._kept.put(bytes(self._pending))] if self._pending else []
        page = KeptOutput(
            size=len(self._pieces) * PIECE + len(self._pending),
            dropped=self._dropped,
            pieces=(*self._pieces, *last),
        )
        return await self._kept.put(json_bytes(page))


async def open_kept(kept: Kept, handle: str) -> KeptOutput:
    """The page under `handle`. Raises `NotFound`, also for bytes that are no page."""
    data = await kept.get(handle)
    try:
        page = msgspec.json.decode(data, type=KeptOutput | _FormerPage)
    except msgspec.DecodeError:
        page = None
    # A command may print what looks like a page; only a page of ours adds up.
    if page is None or len(page.pieces) != -(-page.size // PIECE):
        raise NotFound("output", handle, "use a handle from the result of a command")
    return page


async def read_range(kept: Kept, output: KeptOutput, start: int, size: int) -> bytes:
    """`size` bytes from `start`, fewer at the end."""
    stop = min(start + size, output.size)
    found = bytearray()
    for number in range(start // PIECE, -(-stop // PIECE)):
        piece = await kept.get(output.pieces[number])
        base = number * PIECE
        found += piece[max(start - base, 0) : stop - base]
    return bytes(found)


async def search(
    kept: Kept, output: KeptOutput, pattern: str, *, start: int = 0, longest: int
) -> AsyncIterator[Match]:
    """The lines from byte `start` on that contain `pattern`; only `longest` bytes of each count.

    In a pattern `*` stands for any text and `|` parts alternatives. It is no regular
    expression: output is looked through once, whatever a model asks for.
    """
    wanted = _Wanted([alternative.split("*") for alternative in pattern.split("|")], longest)
    # The byte before decides whether a line begins at `start`.
    first = max(start - 1, 0) // PIECE
    lines = _Lines(base=first * PIECE, longest=longest, inside=first > 0)
    for handle in output.pieces[first:]:
        data = lines.joined(await kept.get(handle))
        for match in wanted.among(data, lines.base):
            if match.offset >= start:
                yield match
        for offset, line in lines.advance(data):
            if offset >= start and (found := wanted.line(line)) is not None:
                yield Match(offset, found)
    if lines.rest and lines.base >= start and (found := wanted.line(lines.rest)) is not None:
        yield Match(lines.base, found)


class _Lines(Struct):
    """Puts lines together again that were cut by the end of a piece.

    Of a line longer than `longest` only the beginning is looked at.
    """

    base: int
    longest: int
    inside: bool
    """In the middle of a line that is passed over."""
    rest: bytes = b""

    def joined(self, piece: bytes) -> bytes:
        """What is to be looked at next; it starts at `base`."""
        if not self.inside:
            return self.rest + piece
        end = piece.find(b"\n")
        passed = len(piece) if end < 0 else end + 1
        self.inside = end < 0
        self.base += passed
        return piece[passed:]

    def advance(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Go on to the line that has not ended yet; gives one that is too long to wait for."""
        ended = data.rfind(b"\n") + 1
        self.base, self.rest = self.base + ended, data[ended:]
        if len(self.rest) > self.longest:
            yield self.base, self.rest
            self.base, self.rest, self.inside = self.base + len(self.rest), b"", True


class _Wanted(Struct):
    """What lines are looked for."""

    alternatives: list[list[str]]
    longest: int

    def among(self, data: bytes, base: int) -> Iterator[Match]:
        """The matching lines that end in `data`."""
        anchors = [max(parts, key=len).encode() for parts in self.alternatives]
        at = 0
        while at < len(data):
            hits = [hit for anchor in anchors if (hit := data.find(anchor, at)) >= 0]
            end = data.find(b"\n", min(hits)) if hits else -1
            if end < 0:
                return
            begin = data.rfind(b"\n", at, min(hits)) + 1 or at
            if (line := self.line(data[begin:end])) is not None:
                yield Match(base + begin, line)
            at = end + 1

    def line(self, data: bytes) -> str | None:
        """`data` as text, if it is wanted."""
        text = data[: self.longest].decode(errors="replace").removesuffix("\r")
        return text if any(_contains(text, parts) for parts in self.alternatives) else None


def _contains(text: str, parts: list[str]) -> bool:
    """Whether all `parts` stand in `text`, one after the other."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
