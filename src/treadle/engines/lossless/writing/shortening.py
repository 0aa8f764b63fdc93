"""Make a summary that is too long fit, without asking for another one.

Owns which lines go: the last ones of the longest sections. Invariant: what is left fits, and of
each section the first line stays as long as there is room for it.
"""

from __future__ import annotations

import re

from .clipping import byte_size, clip, sentences
from .source import SEPARATOR, expand_names, summary_body, with_expand_line

__all__ = ["shorten"]

_HEADING = re.compile(r"\W{0,4}[^\W\d][\w ]{0,24}\W{0,2}:")
_EXPAND_SHARE = 0.25
"""How much of a text its last line may take."""


def shorten(text: str, size: int) -> str:
    """Return a summary in at most `size` bytes."""
    if byte_size(text) <= size:
        return text
    names = _names_within(expand_names(text), int(size * _EXPAND_SHARE))
    room = size - byte_size(with_expand_line("", names)) - 1
    sections = _sections(summary_body(text))
    while sum(map(_size, sections)) > room and any(len(section) > 1 for section in sections):
        max((section for section in sections if len(section) > 1), key=_size).pop()
    body = clip("\n".join(line for section in sections for line in section), max(room, 0))
    return with_expand_line(body, names) if body else ""


def _sections(body: str) -> list[list[str]]:
    """Return the lines of each section; a text of one line by its sentences."""
    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) == 1:
        return [list(sentences(body))]
    found: list[list[str]] = []
    for line in lines:
        if found and not _HEADING.match(line):
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _names_within(names: tuple[str, ...], room: int) -> list[str]:
    kept: list[str] = []
    for name in names:
        room -= byte_size(name) + len(SEPARATOR)
        if room >= 0:
            kept.append(name)
    return kept


def _size(section: list[str]) -> int:
    return sum(byte_size(line) + 1 for line in section)
