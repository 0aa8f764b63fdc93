"""Read summaries by their sections, so that several of them can become one.

Owns which headings mean the same. Invariant: every line of every summary is in one section, and
no summary comes second because it is older, except where only the newest state counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from .source import summary_body
from .user_words import split_wishes

__all__ = ["merged_sections"]

_SECTION = re.compile(r"\W{0,4}([A-Z][a-z]+(?: [a-z]+)?)\W{0,2}:(?:\s+|\Z)")
_MEANING = {
    "Goal": "Goal",
    "Decisions": "Decisions",
    "Course": "Found",
    "Path": "Found",
    "Facts": "Found",
    "Found": "Found",
    "Keep": "Found",
    "Files": "Files",
    "Commands": "Commands",
    "Errors": "Errors",
    "State": "Newest state",
    "Newest state": "Newest state",
    "Open": "Open",
}
_NEWEST_FIRST = frozenset({"Newest state", "Open"})


def merged_sections(summaries: Sequence[str]) -> dict[str, Iterator[str]]:
    """Return the lines of each section of several summaries, one of each summary in turn."""
    read = [_lines_by_section(text) for text in summaries]
    merged: dict[str, Iterator[str]] = {}
    for title in dict.fromkeys(_MEANING.values()):
        parts = [lines.get(title, []) for lines in read]
        parts = parts[::-1] if title in _NEWEST_FIRST else parts
        turns = chain.from_iterable(zip_longest(*parts))
        merged[title] = iter(dict.fromkeys(line for line in turns if line))
    return merged


def _lines_by_section(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    title = "Found"
    for line in split_wishes(summary_body(text))[0].splitlines():
        if (heading := _SECTION.match(line)) and heading[1] in _MEANING:
            title, line = _MEANING[heading[1]], line[heading.end() :]  # noqa: PLW2901 - the rest
        if bare := line.strip().removeprefix("- ").strip():
            found.setdefault(title, []).append(bare)
    return found
