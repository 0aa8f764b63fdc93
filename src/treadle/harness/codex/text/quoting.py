"""Quoting: text of others made fit to stand inside a prompt.

Owns what is taken out (controls, terminal escapes, hidden characters) and what is
written with a full-width look-alike (delimiters, headers, mentions). Invariant: `guard`
keeps the length, and no part of what it returns reads as a delimiter or a mention.
"""

from __future__ import annotations

import re

from ....core.patterns import regex
from ....core.provenance import plain_text

__all__ = ["CLOSING", "LABELS", "OPENING", "REQUEST", "clean_text", "guard_text", "quoted_name"]

OPENING = "<conversation_context>"
CLOSING = "</conversation_context>"
REQUEST = "Current user request:"

LABELS = ("user", "assistant", "developer", "system", "tool", "summary", "agent", "item")
"""Who may stand in a header of ours."""

_LONGEST_NAME = 128
_BRACKETS = str.maketrans("[]", "()")

_ESCAPE = regex(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # colours and movements
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)"  # titles, links, device strings
    r"|\x1b[ -/]*+[0-~]"
)
_MENTIONED = r"(?=[A-Za-z0-9_:-])"
_TELLTALES = (
    re.compile(r"<(?=[\s/]*+conversation_context)", re.IGNORECASE),
    re.compile(r"current\s++user\s++request\s*+:", re.IGNORECASE),
    re.compile(rf"\${_MENTIONED}"),
    re.compile(rf"(?<=\[)@{_MENTIONED}"),
    re.compile(
        rf"^[^\S\n]*+\[(?=[^\S\n]*+(?:{'|'.join(LABELS)})\b[^\n]*\][^\S\n]*+$)",
        re.IGNORECASE | re.MULTILINE,
    ),
)
"""Each ends with the character that must not stand there."""

_FULL_WIDTH = 0xFEE0
"""How far a character of ASCII is from its full-width form."""


def clean_text(text: str) -> str:
    """`text` trimmed, without controls, terminal escapes and hidden characters.

    Whatever breaks a line becomes a line feed.
    """
    return plain_text("\n".join(_ESCAPE.sub("", text).splitlines())).strip()


def guard_text(text: str) -> str:
    """Clean `text` with nothing in it that reads as a delimiter, a header or a mention."""
    for telltale in _TELLTALES:
        text = telltale.sub(_widened, text)
    return text


def quoted_name(text: str) -> str:
    """The name in `text`, on one line and without brackets; ``unknown`` for none."""
    line = " ".join(clean_text(text).translate(_BRACKETS).split())
    return guard_text(line[:_LONGEST_NAME]) or "unknown"


def _widened(found: re.Match[str]) -> str:
    return found[0][:-1] + chr(ord(found[0][-1]) + _FULL_WIDTH)
