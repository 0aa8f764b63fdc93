"""What commands print: text, tables, JSON and progress.

Owns the border between stored text and a terminal. Invariant: nothing that was
stored reaches a terminal as a control sequence, and a pipe gets plain text only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click
import msgspec
from msgspec import Struct

__all__ = [
    "THREAD_TAIL",
    "Column",
    "counted",
    "fit_table",
    "iso",
    "one_line",
    "printable",
    "say",
    "say_bytes",
    "say_document",
    "say_json",
    "shown_bytes",
    "table",
    "working",
]

# Control characters but tab and newline; what turns the direction of text or ends a
# line in some terminals; halves of characters; what nobody sees and programs act upon.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
    "\xad\u180e\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# The same in encoded JSON, which escapes the first control characters by itself.
_UNSAFE_JSON = (
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe1\xa0\x8e|\xe2\x80[\x8b\x8e\x8f\xa8-\xae]"
    rb"|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xef\xbf[\xb9-\xbb]|\xf3\xa0[\x80\x81][\x80-\xbf]"
)
_LONGEST_CELL = 300
_GAP = 2
_ROOM = 24
"""So many characters of a column that gives are shown before others have to go."""
THREAD_TAIL = 12
"""The end of a thread's id that stands for it; every command accepts it."""


class Column(Struct, frozen=True):
    """A column of a table."""

    title: str
    right: bool = False
    """Aligned to the right, as numbers are."""
    gives: bool = False
    """Wrapped when a terminal is narrow."""
    tail: int = 0
    """In a narrow terminal, only so many characters of its end are shown; 0: all of it."""
    spare: int = 0
    """Left out of a narrow terminal, the highest first; 0: never."""


def printable(text: str) -> str:
    """Return `text` with terminal control characters as escapes."""
    if text.isprintable():
        return text
    return re.sub(_UNSAFE, lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str, width: int = _LONGEST_CELL) -> str:
    """Return the beginning of `text` on one line."""
    line = printable(" ".join(text[: width * 4].split()))
    cut = len(line) > width or len(text) > width * 4
    return line[: width - 1] + "…" if cut else line


def counted(number: int, what: str) -> str:
    """Return how many there are of something that is named by one."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def iso(milliseconds: int) -> str:
    """Return a time of the log in ISO format."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown_bytes(size: int) -> str:
    """Return a size for people; less than a kilobyte counts as one."""
    if size <= 0:
        return "0"
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{max(round(size / 1024), 1)} KB"


def say(text: str) -> None:
    """Print one line or more."""
    click.echo(printable(text))


def say_json(value: object) -> None:
    """Print one JSON document on one line, in UTF-8 whatever the locale."""
    data = msgspec.json.encode(value)
    say_bytes(re.sub(_UNSAFE_JSON, _json_escape, data) + b"\n")


def say_document(data: bytes) -> None:
    """Print a JSON document byte for byte; on a terminal, with control characters escaped."""
    safe = re.sub(_UNSAFE_JSON, _json_escape, data) if sys.stdout.isatty() else data
    say_bytes(safe + b"\n")


def _json_escape(found: re.Match[bytes]) -> bytes:
    """Return a character as a JSON escape; above 65,535 as a surrogate pair."""
    units = found[0].decode().encode("utf-16-be")
    return b"".join(b"\\u" + units[at : at + 2].hex().encode() for at in range(0, len(units), 2))


def say_bytes(data: bytes) -> None:
    """Print bytes unchanged, after all earlier output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: aligned plain text, or fitted to the terminal when there is one."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, cells)
    else:
        _plain_table(columns, cells)


def fit_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[Column], list[list[str]]]:
    """Return the columns and cells that a terminal of `width` has room for.

    First ids are shown by their ends, then columns that can be spared are left out: those in
    which nothing stands, and then the others.
    """
    kept, cells = list(columns), [list(row) for row in rows]
    if _width(kept, cells) > width:
        cells = [
            [cell[-c.tail :] if c.tail else cell for c, cell in zip(kept, row, strict=True)]
            for row in cells
        ]
    while _width(kept, cells) > width and any(column.spare for column in kept):
        empty = [not any(row[at] for row in cells) for at in range(len(kept))]
        spares = [(c.spare > 0 and empty[at], c.spare, at) for at, c in enumerate(kept)]
        _, _, least_needed = max(spares)
        del kept[least_needed]
        for row in cells:
            del row[least_needed]
    return kept, cells


def _width(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """Return the characters that a table needs, with little for columns that give."""
    titles = [column.title for column in columns]
    longest = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    needed = (
        min(length, _ROOM) if column.gives else length
        for column, length in zip(columns, longest, strict=True)
    )
    return sum(needed) + _GAP * (len(columns) - 1)


def _plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    titles = [column.title for column in columns]
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        parts = zip(columns, row, widths, strict=True)
        cells = (cell.rjust(w) if column.right else cell.ljust(w) for column, cell, w in parts)
        click.echo("  ".join(cells).rstrip())


def _rich_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    columns, rows = fit_table(columns, rows, console.width)
    shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in columns:
        shown.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.gives,
            ratio=1 if column.gives else None,
        )
    for row in rows:
        shown.add_row(*map(Text, row))
    console.print(shown)


@contextmanager
def working(what: str, *, steps: bool = False) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error; yield a function that shows the next step.

    A terminal gets a moving line that disappears. Elsewhere only `steps` are printed.
    """
    if not sys.stderr.isatty():
        yield lambda text: click.echo(printable(text), err=True) if steps else None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(what)) as status:
        yield lambda text: status.update(Text(printable(text)))
