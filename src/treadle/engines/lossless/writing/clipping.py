"""Clipping: texts made shorter, never inside what a reader sees as one character.

Owns the sizes of excerpts. Sizes are UTF-8 bytes, four to a token, so that text in any
script is worth what it takes. Invariant: a clipped text fits; one that fits is kept.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from ....core.patterns import regex

__all__ = ["clip", "clip_middle", "on_one_line", "sentences", "size_of"]

_GAP = "…"
_MARKS = frozenset({"Mn", "Mc", "Me"})
_JOINER = "\u200d"
_END = regex(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")


def size_of(text: str) -> int:
    """The bytes of `text`; what cannot be written counts as its replacement."""
    return len(text.encode(errors="replace"))


def clip(text: str, size: int) -> str:
    """The beginning of `text`, with a sign where it was cut."""
    if size_of(text) <= size:
        return text
    head = _head(text, size - size_of(_GAP))
    return f"{head.rstrip()}{_GAP}" if head else ""


def clip_middle(text: str, size: int, gap: str = _GAP) -> str:
    """The beginning and the end of `text`, with `gap` for what was between them."""
    if size_of(text) <= size:
        return text
    room = size - size_of(gap)
    if room < 2:
        return clip(text, size)
    head = _head(text, room // 2)
    return f"{head}{gap}{_tail(text, room - size_of(head))}"


def on_one_line(text: str) -> str:
    """`text` with every run of white space turned into a blank."""
    return " ".join(text.split())


def sentences(text: str) -> Iterator[str]:
    """The sentences of `text`, each on one line; a line break ends one too."""
    return filter(None, map(on_one_line, _END.split(text)))


def _head(text: str, size: int) -> str:
    """As much of the beginning as fits, whole characters only."""
    at = len(text.encode(errors="replace")[: max(size, 0)].decode(errors="ignore"))
    while at and at < len(text) and _belongs(text[at - 1], text[at]):
        at -= 1
    return text[:at]


def _tail(text: str, size: int) -> str:
    """As much of the end as fits, whole characters only."""
    data = text.encode(errors="replace")
    kept = data[max(len(data) - max(size, 0), 0) :].decode(errors="ignore")
    at = len(text) - len(kept)
    while at < len(text) and at and _belongs(text[at - 1], text[at]):
        at += 1
    return text[at:]


def _belongs(before: str, after: str) -> bool:
    """Whether two neighbours are, or may be, parts of one visible character."""
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
