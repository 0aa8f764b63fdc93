"""The screen: everything that is printed above the input line.

Invariant: text of models, tools and files passes `printable` before it is printed, and
links show where they lead.
"""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..output import printable

__all__ = ["LONGEST_HIGHLIGHTED", "LONGEST_MARKDOWN", "Screen"]

LONGEST_MARKDOWN = 200_000
"""The longest block that is rendered as Markdown; a longer one is printed as it is."""

LONGEST_HIGHLIGHTED = 20_000
"""The longest code that is coloured."""

_LONGEST_DIFF = 60
_STYLES = (
    ("+++", "bold"),
    ("---", "bold"),
    ("***", "bold"),
    ("diff ", "bold"),
    ("+", "green"),
    ("-", "red"),
    ("@@", "cyan"),
)


class Screen:
    """Prints for the user."""

    def __init__(self, console: Console | None = None) -> None:
        # Standard output is wrapped while a line is being edited, and is a terminal still.
        self._console = console or Console(force_terminal=True, highlight=False, soft_wrap=False)

    def say(self, text: str, style: str = "") -> None:
        """Print lines as they are."""
        self._console.print(Text(printable(text), style=style))

    def quiet(self, text: str) -> None:
        """Print less important text."""
        self.say(text, "dim")

    def trouble(self, text: str) -> None:
        """Print an error."""
        self.say(text, "bold red")

    def show_input(self, text: str) -> None:
        """Print the input of the user."""
        first, *more = printable(text).split("\n")
        said = "\n".join([f"> {first}", *(f"  {line}" for line in more)])
        self._console.print(Text(said, style="bold"))

    def markdown(self, text: str) -> None:
        """Print a block of the model's answer."""
        if len(text) > LONGEST_MARKDOWN:
            self.say(text)
            return
        shown = Markdown(printable(text), hyperlinks=False, code_theme="ansi_dark")
        _defuse(shown.parsed)
        self._console.print(Padding(shown, (0, 0, 1, 0)))

    def diff(self, text: str, longest: int = _LONGEST_DIFF) -> None:
        """Print a patch or a diff in colours."""
        lines = printable(text).rstrip("\n").split("\n")
        shown = Text("\n").join(_style_line(line) for line in lines[:longest])
        self._console.print(Padding(shown, (0, 0, 0, 2)))
        if len(lines) > longest:
            self.quiet(f"  … {len(lines) - longest} more lines")

    def pairs(self, rows: dict[str, str]) -> None:
        """Print names and values."""
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in rows.items():
            table.add_row(Text(name, style="dim"), Text(printable(value)))
        self._console.print(table)


def _defuse(tokens: Sequence[Token]) -> None:
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


def _style_line(line: str) -> Text:
    style = next((style for mark, style in _STYLES if line.startswith(mark)), "")
    return Text(line, style=style)
