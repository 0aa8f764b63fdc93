"""Lines: how files are read, one bounded line at a time.

Owns what is done about lines that are torn, broken or endless. Invariant: memory is
bounded by the longest line that is accepted, never by the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from .tally import Tally

__all__ = [
    "HEAVY",
    "LONGEST_LINE",
    "Line",
    "bounded",
    "object_of",
    "read_lines",
    "read_objects",
    "read_records",
    "sound",
]

LONGEST_LINE = 32 * 1024 * 1024
"""A longer line is passed over, and said so."""

HEAVY = 16 * 1024 * 1024
"""Bytes that are held at a time, give or take a line."""

_BOM = b"\xef\xbb\xbf"
_SKIP = 1 << 20

T = TypeVar("T")

_anything = msgspec.json.Decoder().decode


class Line(NamedTuple):
    """One line without its end, and where it stands."""

    offset: int
    number: int
    data: bytes
    whole: bool
    """Whether a line break follows; the last line of a file may be torn."""


def read_lines(path: Path, tally: Tally, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """The lines of a file that are not blank."""
    offset = number = 0
    with path.open("rb") as file:
        while data := file.readline(longest + 1):
            start, number = offset, number + 1
            offset += len(data)
            whole = data.endswith(b"\n")
            if len(data) > longest and not whole:
                offset += _skip_line(file)
                tally.too_long += 1
                tally.complain(
                    f"line {number} of {path.name!r} is {offset - start:,} bytes long and was "
                    f"passed over; {longest:,} are accepted"
                )
            elif text := data.removeprefix(_BOM if start == 0 else b"").strip():
                yield Line(start + data.index(text), number, text, whole)


def _skip_line(file: BinaryIO) -> int:
    """Read on to the end of the line; how many bytes that were."""
    skipped = 0
    while data := file.readline(_SKIP):
        skipped += len(data)
        if data.endswith(b"\n"):
            break
    return skipped


def read_objects(
    path: Path, decode: Callable[[bytes], T], tally: Tally
) -> Iterator[tuple[Line, T]]:
    """What `decode` makes of each line; what it cannot read is counted and complained about."""
    for line in read_lines(path, tally):
        try:
            yield line, decode(line.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if line.whole:
                tally.malformed += 1
                tally.complain(f"line {line.number} of {path.name!r} is no record: {error}")
            else:
                tally.torn += 1
                tally.complain(
                    f"line {line.number} of {path.name!r} ends in the middle; "
                    "import again when it is whole"
                )


object_of = msgspec.json.Decoder(dict[str, Any]).decode
"""A line as the object it is."""


def read_records(path: Path, tally: Tally) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The lines of a file as objects, sound all the way down."""
    return read_objects(path, sound(object_of), tally)


def bounded(values: Iterable[T], size: Callable[[T], int], most: int) -> list[T]:
    """The next values: `most` of them, or fewer where they are heavy. Empty at the end."""
    taken: list[T] = []
    weight = 0
    for value in values:
        taken.append(value)
        weight += size(value)
        if len(taken) >= most or weight >= HEAVY:
            break
    return taken


def sound(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """`decode` for lines that are JSON all the way down, also where it does not look."""

    def checked(data: bytes) -> T:
        _anything(data)
        return decode(data)

    return checked
