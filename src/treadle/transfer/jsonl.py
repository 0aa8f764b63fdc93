"""JSONL files: how they are read, one bounded line at a time, and how they spell times.

Owns what is done about lines that are torn, broken or endless. Invariant: memory is
bounded by the longest accepted line, never by the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from ..core.wire import is_nested_deeper
from .import_report import ImportCounts

__all__ = [
    "CHUNK_BYTES",
    "LONGEST_LINE",
    "MOST_LEVELS",
    "MOST_SKIPPED",
    "JsonLine",
    "decode_object",
    "iso_time",
    "mend_halves",
    "milliseconds",
    "read_lines",
    "read_objects",
    "read_records",
    "strict_decoder",
    "take_chunk",
]

MOST_LEVELS = 900
"""How deep a record may nest; none that an agent writes comes near."""

LONGEST_LINE = 32 * 1024 * 1024
"""A longer line is skipped, and reported."""

MOST_SKIPPED = 1024 * 1024 * 1024
"""What is left of a longer line is not looked at, and neither is what follows it."""

CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes that are held at a time, give or take a line."""

_HALF = b"\\ud"
_ESCAPES = (
    rb"(?i)\\(?:[^u]|u(?!d[89a-f])|ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}"
    rb"|(?P<half>ud[89a-f][0-9a-f]{2}))"
)
"""Escapes in JSON: whole ones, pairs of halves, and halves that stand alone."""
_BOM = b"\xef\xbb\xbf"
_SKIP = 1 << 20
_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""

T = TypeVar("T")

_decode_anything = msgspec.json.Decoder().decode


class JsonLine(NamedTuple):
    """One line without its line break, and its position in the file."""

    offset: int
    number: int
    data: bytes
    whole: bool
    """Whether a line break follows; the last line of a file may be torn."""


def read_lines(path: Path, counts: ImportCounts, longest: int = LONGEST_LINE) -> Iterator[JsonLine]:
    """Yield the lines of a file that are not blank."""
    offset = number = 0
    with path.open("rb") as file:
        while data := file.readline(longest + 1):
            start, number = offset, number + 1
            offset += len(data)
            whole = data.endswith(b"\n")
            if len(data) > longest and not whole:
                skipped, ends = _skip_line(file)
                offset += skipped
                counts.too_long += 1
                counts.add_problem(
                    f"line {number} of {path.name!r} is {offset - start:,} bytes long and was "
                    f"skipped; {longest:,} are accepted"
                    if ends
                    else f"line {number} of {path.name!r} has no end: the rest was left unread"
                )
                if not ends:
                    return
            elif text := data.removeprefix(_BOM if start == 0 else b"").strip():
                yield JsonLine(start + data.index(text), number, mend_halves(text), whole)


def mend_halves(data: bytes) -> bytes:
    """Return JSON in which no half of a character stands alone; it stays as long as it is.

    Programs that cut texts at a number of units write such halves, and no decoder takes them.
    """
    return re.sub(_ESCAPES, _mend, data) if _HALF in data.lower() else data


def _mend(found: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if found["half"] else found[0]


def _skip_line(file: BinaryIO) -> tuple[int, bool]:
    """Read on to the end of the line; return how many bytes that were, and whether it has one."""
    skipped = 0
    while data := file.readline(_SKIP):
        skipped += len(data)
        if data.endswith(b"\n"):
            break
        if skipped > MOST_SKIPPED:
            return skipped, False
    return skipped, True


def read_objects(
    path: Path, decode: Callable[[bytes], T], counts: ImportCounts
) -> Iterator[tuple[JsonLine, T]]:
    """Yield each line with what `decode` returns for it; count and report unreadable lines."""
    for line in read_lines(path, counts):
        try:
            _check_depth(line.data)
            yield line, decode(line.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if line.whole:
                counts.malformed += 1
                counts.add_problem(f"line {line.number} of {path.name!r} is not a record: {error}")
            else:
                counts.torn += 1
                counts.add_problem(
                    f"line {line.number} of {path.name!r} ends in the middle; "
                    "import again when it is complete"
                )


decode_object = msgspec.json.Decoder(dict[str, Any]).decode
"""Decodes a line that is a JSON object."""


def read_records(path: Path, counts: ImportCounts) -> Iterator[tuple[JsonLine, dict[str, Any]]]:
    """Yield the lines of a file as objects that are valid at every depth."""
    return read_objects(path, strict_decoder(decode_object), counts)


def strict_decoder(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Return `decode` for lines that are valid JSON also where `decode` does not look."""

    def decode_strictly(data: bytes) -> T:
        _decode_anything(data)
        return decode(data)

    return decode_strictly


def take_chunk(values: Iterable[T], size: Callable[[T], int], most: int) -> list[T]:
    """Return the next values: `most` of them, or fewer where they are large; [] at the end."""
    taken: list[T] = []
    weight = 0
    for value in values:
        taken.append(value)
        weight += size(value)
        if len(taken) >= most or weight >= CHUNK_BYTES:
            break
    return taken


def milliseconds(value: object) -> int | None:
    """Parse a time in any of the usual spellings; return None for what is not one."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        # Not `timestamp()`: a float would lose the last millisecond now and then.
        since = moment - _EPOCH
        return max((since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000, 0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LATEST:
        # Seconds since 1970 have ten digits for a long time yet, milliseconds thirteen.
        return int(value if value >= 1e11 else value * 1000)
    return None


def iso_time(value: int) -> str:
    """Return a time of the log, in milliseconds, in ISO 8601."""
    moment = datetime.fromtimestamp(value / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _check_depth(data: bytes) -> None:
    """Raise for a record that nests too deep; decoders of each Python have other limits."""
    if is_nested_deeper(data, MOST_LEVELS):
        raise msgspec.DecodeError(f"it nests deeper than {MOST_LEVELS:,} levels")
