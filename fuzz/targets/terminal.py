"""The terminal: nothing of a model's, a tool's or a file's text acts upon it."""

from __future__ import annotations

import io
import re

from rich.console import Console

from fuzz.cutting import head_and_rest
from treadle.cli.activity import call_line
from treadle.cli.output import one_line, printable
from treadle.cli.repl.blocks import Blocks
from treadle.cli.repl.screen import Screen
from treadle.tools.call_text import patch_in

__all__ = ["WORDS", "check"]

WORDS = (
    *(b"\x1b[2J", b"\x1b]8;;", b"\x1b]52;c;", b"\x07", b"\xc2\x9b", b"\xe2\x80\xae", b"\r", b"\0"),
    *(
        b"&#27;",
        b"&#x202e;",
        b"&rlm;",
        b"[a](",
        b"![",
        b"```",
        b"> ",
        b"- ",
        b"|-|\n",
        b"<b>",
        b"\n",
    ),
    *(
        b'{"cmd":',
        b'{"command":[',
        b"*** Begin Patch\n",
        b"\n*** End Patch",
        b'{"plan":[',
        b"[red]",
    ),
)
_TOOLS = ("exec_command", "apply_patch", "write_stdin", "update_plan", "view_image", "x\x1b")
_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
    "|\x1b(?!\\[[0-9;]*m)"
)


def check(data: bytes) -> None:
    """Whatever is shown holds nothing but text and our own colours."""
    choice, body = head_and_rest(data)
    text = body.decode(errors="surrogateescape")
    name = _TOOLS[choice[0] % len(_TOOLS)]
    patch_in(name, text)
    for line in (call_line(name, text), one_line(text), printable(text)):
        assert _ACTS.search(line) is None
        assert "\x1b" not in line
    assert _ACTS.search(_shown(text)) is None


def _shown(text: str) -> str:
    file, blocks = io.StringIO(), Blocks()
    screen = Screen(Console(force_terminal=True, highlight=False, file=file, width=60))
    for block in (*blocks.feed(text), blocks.rest()):
        screen.markdown(block)
    return file.getvalue()
