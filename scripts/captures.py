"""Writes docs/images/demo.svg: what `make demo` shows on a terminal.

python scripts/captures.py            # writes the image; a test compares its text with a run
"""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGE = ROOT / "docs" / "images" / "demo.svg"
COLUMNS = 80

# A page that shows the image asks no other server for fonts.
_FONTS = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)
_FORMAT = _FONTS.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code", "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono"
)
_THEME = TerminalTheme(
    (24, 27, 33),
    (222, 226, 233),
    [
        (24, 27, 33),
        (240, 113, 120),
        (134, 197, 118),
        (229, 192, 103),
        (97, 160, 239),
        (198, 120, 221),
        (86, 190, 204),
        (222, 226, 233),
    ],
)
_SECTION = re.compile(r"(?=^(?:\x1b\[[\d;]*m)*── )", re.MULTILINE)


def run_demo() -> str:
    """Return what the demo writes to a terminal, with its colours."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": ""}
    environ.pop("NO_COLOR", None)
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py")]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)  # noqa: S603
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # Linux raises when nobody has the other end any more
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    if process.wait():
        raise SystemExit(f"the demo failed:\n{text}")
    return text


def choose(shown: str) -> str:
    """Return the parts of the demo that a first look needs: the turn and the ledger."""
    parts = _SECTION.split(shown)
    kept = [part for part in parts if "── A turn" in part or "── The ledger" in part]
    return "$ make demo\n\n" + "\n".join(part.strip("\n") + "\n" for part in kept)


def draw(shown: str) -> str:
    """Return the image of a terminal that shows this text."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(Text.from_ansi(shown), end="")
    return console.export_svg(
        title="treadle", theme=_THEME, code_format=_FORMAT, unique_id="treadle-demo"
    )


if __name__ == "__main__":
    IMAGE.write_text(draw(choose(run_demo())), encoding="utf-8")
