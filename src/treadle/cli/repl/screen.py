"""The screen: everything that is printed above the input line.

Invariant: text of models, tools and files passes `printable` before it is printed, and
links show where they lead; plain, there are neither colours nor boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markdown_it.token import Token
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from ..output import printable
from .numbered_diff import NumberedLine

__all__ = ["LONGEST_HIGHLIGHTED", "LONGEST_MARKDOWN", "Screen"]

LONGEST_MARKDOWN = 200_000
"""The longest block that is rendered as Markdown; a longer one is printed as it is."""

LONGEST_HIGHLIGHTED = 20_000
"""The longest code that is coloured."""

_LONGEST_DIFF = 60
_STYLES = {"file": "bold", "@": "cyan", "+": "green", "-": "red", " ": ""}


class Screen:
    """Prints for the user."""

    def __init__(self, console: Console | None = None, *, plain: bool = False) -> None:
        self.plain = plain
        # Standard output is wrapped while a line is being edited, and is a terminal still.
        self._console = console or Console(
            force_terminal=True, highlight=False, no_color=True if plain else None
        )

    def say(self, text: str, style: str = "") -> None:
        """Print lines as they are."""
        shown = Text(printable(text), style="" if self.plain else style)
        self._console.print(shown, soft_wrap=self.plain)

    def quiet(self, text: str) -> None:
        """Print less important text."""
        self.say(text, "dim")

    def trouble(self, text: str) -> None:
        """Print an error."""
        self.say(f"error: {text}" if self.plain else text, "bold red")

    def heading(self, text: str) -> None:
        """Print the title of what follows."""
        self.say(text, "bold")

    def show_input(self, text: str) -> None:
        """Print the input of the user."""
        first, *more = printable(text).split("\n")
        self.say("\n".join([f"> {first}", *(f"  {line}" for line in more)]), "bold")

    def markdown(self, text: str) -> None:
        """Print a block of the model's answer, and one blank line."""
        if self.plain or len(text) > LONGEST_MARKDOWN:
            self.say(text)
            return
        shown = Markdown(printable(text), hyperlinks=False, code_theme="ansi_dark")
        _defuse(shown.parsed)
        lines = _without_blanks(self._console.render_lines(shown, pad=False))
        segments = [part for line in lines for part in (*line, Segment.line())]
        self._console.print(Segments([*segments, Segment.line()]), end="")

    def diff(self, lines: Sequence[NumberedLine], longest: int = _LONGEST_DIFF) -> None:
        """Print the lines of a diff, with their numbers and in colours."""
        numbers = [line.number for line in lines[:longest] if line.number is not None]
        width = len(str(max(numbers, default=0)))
        shown = Text("\n").join(_diff_line(line, width) for line in lines[:longest])
        self._console.print(Padding(shown, (0, 0, 0, 2)))
        if len(lines) > longest:
            self.quiet(f"  … {len(lines) - longest} more lines")

    def pairs(self, rows: dict[str, str]) -> None:
        """Print names and values."""
        if self.plain:
            self.say("\n".join(f"{name}: {value}" for name, value in rows.items()))
            return
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, value in rows.items():
            table.add_row(Text(name, style="dim"), Text(printable(value)))
        self._console.print(table)

    @property
    def width(self) -> int:
        """How many characters fit on a line."""
        return self._console.width

    def bar(self, runs: Iterable[tuple[str, int, str]]) -> None:
        """Print a bar of letters, each with how often it stands there and its colour."""
        shown = Text()
        for letter, count, colour in runs:
            shown.append(letter * count, "" if self.plain or not colour else f"black on {colour}")
        self._console.print(shown, soft_wrap=self.plain)

    def columns(self, rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
        """Print rows of cells; those of the columns `right` end at the same place."""
        table = Table(box=None, show_header=False, pad_edge=False)
        for number in range(len(rows[0]) if rows else 0):
            table.add_column(justify="right" if number in right else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        self._console.print(table)

    def send_raw(self, sequence: str) -> None:
        """Send the terminal a sequence of ours that shows nothing, such as a bell."""
        self._console.file.write(sequence)
        self._console.file.flush()


def _without_blanks(lines: list[list[Segment]]) -> list[list[Segment]]:
    """Return the lines of a block without blank ones before and after it."""
    filled = [at for at, line in enumerate(lines) if "".join(part.text for part in line).strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _defuse(tokens: Iterable[Token]) -> None:
    """Escape control characters from entities such as ``&#x202e;``; leave long code plain."""
    for token in tokens:
        token.content = printable(token.content)
        token.attrs = {
            name: printable(value) if isinstance(value, str) else value
            for name, value in token.attrs.items()
        }
        if len(token.content) > LONGEST_HIGHLIGHTED:
            token.info = ""
        _defuse(token.children or ())


def _diff_line(line: NumberedLine, width: int) -> Text:
    text = printable(line.text)
    if line.kind in ("file", "@"):
        return Text(text, style=_STYLES[line.kind])
    number = "" if line.number is None else str(line.number)
    shown = Text(f"{number:>{width}} ", style="dim")
    return shown.append(f"{line.kind}{text}", style=_STYLES[line.kind])
