"""Keeping: output of any length, stored in pieces as it arrives.

Owns the pieces and the page that lists them; the page's handle stands for the whole.
Invariant: no more than one piece is in memory, when storing and when reading back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from ..errors import NotFound
from ..wire import json_bytes
from .contract import Kept

__all__ = ["CAP", "PIECE", "Keeper", "KeptOutput", "Match", "open_kept", "read_range", "search"]

PIECE = 1 << 20
CAP = 1 << 28
"""Bytes that are kept of one command's output; what follows is only counted."""

_KIND = "weft.output"


class KeptOutput(Struct, frozen=True, kw_only=True, tag=_KIND):
    """The page: which pieces make up an output."""

    size: int
    """Bytes that can be read back."""
    dropped: int = 0
    """Bytes that came after `CAP`."""
    pieces: tuple[str, ...]


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
        return msgspec.json.decode(data, type=KeptOutput)
    except msgspec.DecodeError as error:
        raise NotFound("output", handle, "use a handle from the result of a command") from error


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
    kept: Kept, output: KeptOutput, pattern: str, *, longest: int
) -> AsyncIterator[Match]:
    """The lines that contain `pattern`; no more than `longest` bytes of each are looked at.

    In a pattern `*` stands for any text and `|` parts alternatives. It is no regular
    expression: a line is looked through once, whatever a model asks for.
    """
    wanted = [alternative.split("*") for alternative in pattern.split("|")]
    base, rest, dropping = 0, b"", False
    for handle in output.pieces:
        data = rest + await kept.get(handle)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if not dropping and (match := _match(wanted, data[start:end], longest)):
                yield Match(base + start, match)
            start, dropping = end + 1, False
        base, rest = base + start, data[start:]
        if not dropping and len(rest) > longest:
            if match := _match(wanted, rest, longest):
                yield Match(base, match)
            dropping = True
        if dropping:
            base, rest = base + len(rest), b""
    if rest and (match := _match(wanted, rest, longest)):
        yield Match(base, match)


def _match(wanted: list[list[str]], line: bytes, longest: int) -> str | None:
    text = line[:longest].decode(errors="replace").removesuffix("\r")
    return text if any(_contains(text, parts) for parts in wanted) else None


def _contains(text: str, parts: list[str]) -> bool:
    """Whether all `parts` stand in `text`, one after the other."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
