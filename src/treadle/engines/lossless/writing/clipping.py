"""Shorten texts without a cut inside what a reader sees as one character.

Owns the sizes of excerpts, and what of a text is prose. Sizes are UTF-8 bytes, four to a
token, so that text in any script is worth what it takes. Invariant: a clipped text fits; a
text that fits is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["byte_size", "clip", "clip_middle", "looks_like_code", "one_line", "prose", "sentences"]

_GAP = "…"
_MARKS = frozenset({"Mn", "Mc", "Me"})
_JOINER = "\u200d"
_FENCED = re.compile(r"^```.*?(?:^```|\Z)", re.DOTALL | re.MULTILINE)
_LOCATION = re.compile(r"^\s*[\w./-]+\.\w+[:-]\d+[:-](?:\d+:)?\s*")
_CODE = re.compile(
    r"[;{}]\s*$|^\s*[\])}]+[,;:]?\s*$|^\s*(?:@\w|//|/\*|\*/|\"\"\"|</?\w+[ >/])"
    r"|^\s*[\w.\[\]'\"]+\s*(?:[-+*/|&]?=(?!=)|:=)\s*\S"
    r"|\)\s*->\s*\w|\blambda\b|\bself\.\w|\w\([^()]*\)\s*:?\s*$"
)
_LONGEST_LINE = 400
"""A longer line is prose, or no line that anybody wrote."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")


def byte_size(text: str) -> int:
    """Return the bytes of `text`; what cannot be encoded counts as its replacement."""
    return len(text.encode(errors="replace"))


def clip(text: str, size: int) -> str:
    """Return the beginning of `text`, with a sign where it was cut."""
    if byte_size(text) <= size:
        return text
    head = _head(text, size - byte_size(_GAP))
    return f"{head.rstrip()}{_GAP}" if head else ""


def clip_middle(text: str, size: int, gap: str = _GAP) -> str:
    """Return the beginning and the end of `text`, with `gap` in place of its middle."""
    if byte_size(text) <= size:
        return text
    room = size - byte_size(gap)
    if room < 2:
        return clip(text, size)
    head = _head(text, room // 2)
    return f"{head}{gap}{_tail(text, room - byte_size(head))}"


def one_line(text: str) -> str:
    """Return `text` with a blank in place of every run of white space."""
    return " ".join(text.split())


def sentences(text: str) -> Iterator[str]:
    """Return the sentences of `text`, each on one line; a line break ends a sentence too."""
    return filter(None, map(one_line, _SENTENCE_END.split(text)))


def prose(text: str) -> str:
    """Return `text` without its fenced blocks of code."""
    return _FENCED.sub("\n", text) if "```" in text else text


def looks_like_code(line: str) -> bool:
    """Return whether a line has the shape of source code, with or without a place before it."""
    return len(line) <= _LONGEST_LINE and bool(_CODE.search(_LOCATION.sub("", line, count=1)))


def _head(text: str, size: int) -> str:
    """Return as much of the beginning as fits, in whole characters."""
    at = len(text.encode(errors="replace")[: max(size, 0)].decode(errors="ignore"))
    while at and at < len(text) and _is_one_character(text[at - 1], text[at]):
        at -= 1
    return text[:at]


def _tail(text: str, size: int) -> str:
    """Return as much of the end as fits, in whole characters."""
    data = text.encode(errors="replace")
    kept = data[max(len(data) - max(size, 0), 0) :].decode(errors="ignore")
    at = len(text) - len(kept)
    while at < len(text) and at and _is_one_character(text[at - 1], text[at]):
        at += 1
    return text[at:]


def _is_one_character(before: str, after: str) -> bool:
    """Return whether two neighbours are, or may be, parts of one visible character."""
    if before < "\u0300" and after < "\u0300":
        return before == "\r" and after == "\n"
    return (
        _JOINER in (before, after)
        or unicodedata.category(after) in _MARKS
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\u1160" <= after <= "\u11ff"
        or (_is_flag_letter(before) and _is_flag_letter(after))
    )


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
