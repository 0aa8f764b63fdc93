"""Scans: substrings and regular expressions, newest first.

Owns how far such a search goes. The index leaves only documents that can hold the literal
parts; their texts are read until there are enough hits or the work is used up. RE2 runs
the regular expressions, in time linear in the text. Invariant: a search that did not look
at everything says so.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...core.errors import SearchRefused
from .candidates import SearchCandidate, WordPlace, load_candidates
from .literals import index_expression, regex_literals
from .query import Hit, Hits, Search
from .reader import EntryReader, FoundEntry, snippet_at
from .scope import Scope, match_documents
from .terms import fold

if TYPE_CHECKING:
    import re2

__all__ = ["LONGEST_PATTERN", "PATTERN_BYTES", "Matcher", "regex_matcher", "scan_texts"]

LONGEST_PATTERN = 500
"""Characters of a regular expression."""
PATTERN_BYTES = 2 << 20
"""Memory that RE2 may use for a regular expression."""

_BATCH = 200
_MOST_ENTRIES = 20_000
"""Entries that one search may read."""
_MOST_WORK = 10_000_000
"""Characters that one search may look at."""
_CHEAP_PROGRAM = 32
"""Instructions of a compiled pattern; where there are more, a character costs more."""
_END = 1 << 62

_REASONS = {
    "missing )": "has a '(' that is not closed",
    "unexpected )": "has a ')' too many",
    "missing ]": "has a '[' that is not closed",
    "trailing \\": "ends with a backslash; write two to mean one",
    "no argument for repetition operator": (
        "has a {!r} with nothing to repeat; escape it to mean itself"
    ),
    "bad repetition operator": "repeats a repeat ({!r}); put the first in a group, or drop one",
    "invalid repetition size": (
        "repeats {} times; repeat at most 1,000 times in all, the smaller number first"
    ),
    "invalid character class range": "has a range or class {!r} that does not exist",
    "invalid named capture group": "has a group {!r}; use letters, digits and '_' in its name",
    "pattern too large - compile failed": "is too large when compiled; repeat less",
}
"""What RE2 says of a pattern, in our words; the braces stand for the place it names."""
_INSTEAD = {r"\Z": r"; use \z", r"\u": r"; use \x{…} with the same digits"}


class Matcher(NamedTuple):
    """What to find in a text."""

    literals: Sequence[str]
    """Texts that every match contains."""
    find: Callable[[str], int | None]
    """Returns where the first match begins; None when there is no match."""
    cost: float
    """The work that each character of a text costs."""


@dataclass(slots=True)
class _Scan:
    """One search under way."""

    matcher: Matcher
    limit: int
    found: dict[WordPlace, tuple[FoundEntry, int]]
    entries: int = 0
    """How many entries were looked at."""
    work: float = 0.0

    def is_finished(self) -> bool:
        return (
            len(self.found) >= self.limit
            or self.entries >= _MOST_ENTRIES
            or self.work >= _MOST_WORK
        )

    def look_at(self, texts: Mapping[WordPlace, FoundEntry]) -> None:
        for place, each in texts.items():
            if self.is_finished():
                return
            self.entries += 1
            self.work += len(each.text) * self.matcher.cost
            if (at := self.matcher.find(each.text)) is not None:
                self.found[place] = each, at


async def scan_texts(reader: EntryReader, query: Search, scope: Scope) -> Hits:
    """Find the texts that match a substring or regular expression, newest first.

    Raises `SearchRefused`.
    """
    find_matcher = regex_matcher if query.mode == "regex" else _substring_matcher
    scan = _Scan(find_matcher(query.text), query.limit, {})
    if not query.text:
        return Hits()
    expression, scope = await reader.read_index(
        lambda db: (index_expression(db, scan.matcher.literals), scope.with_bounds(db))
    )
    if expression is None:
        return Hits()
    before, note = _END, ""
    while not scan.is_finished():
        ids, candidates = await reader.read_index(_next_batch(expression, scope, before))
        if not ids:
            break
        before = ids[-1]
        texts = await reader.read([each.place for each in candidates])
        await asyncio.to_thread(scan.look_at, texts)
    else:
        note = "" if len(scan.found) >= query.limit else _incomplete_note(scan.entries)
    neighbours = await reader.neighbours([*scan.found], query.neighbours, scope)
    return Hits(_hits(scan.found, neighbours), note)


def _next_batch(
    expression: str, scope: Scope, before: int
) -> Callable[[sqlite3.Connection], tuple[list[int], list[SearchCandidate]]]:
    def look_up(db: sqlite3.Connection) -> tuple[list[int], list[SearchCandidate]]:
        ids = match_documents(db, expression, scope, newest=_BATCH, before=before)
        return ids, load_candidates(db, ids)

    return look_up


def _hits(
    found: Mapping[WordPlace, tuple[FoundEntry, int]], neighbours: Mapping[WordPlace, Sequence[int]]
) -> list[Hit]:
    return [
        each.hit(1 / rank, snippet_at(each.text, at), neighbours.get(place, ()))
        for rank, (place, (each, at)) in enumerate(found.items(), 1)
    ]


def _incomplete_note(entries: int) -> str:
    return (
        f"only the newest {entries:,} entries that could match were looked at; "
        "narrow the search by thread, role or time, or give it a longer plain text"
    )


def _substring_matcher(text: str) -> Matcher:
    needle = fold(text)

    def find(searched: str) -> int | None:
        at = fold(searched).find(needle)
        return None if at < 0 else at

    return Matcher([text], find, 0.1)


def regex_matcher(pattern: str) -> Matcher:
    """Return the matcher of a regular expression in RE2's syntax. Raises `SearchRefused`."""
    compiled = _compile(pattern)

    def find(searched: str) -> int | None:
        match = compiled.search(searched)
        return None if match is None else int(match.start())

    # Where RE2 must follow many ways at once, a character costs as much as the program is long.
    cost = 1 + compiled.programsize // _CHEAP_PROGRAM
    return Matcher(regex_literals(pattern), find, cost)


def _compile(pattern: str) -> re2._Regexp:
    # RE2 is loaded only by those who search with a regular expression.
    import re2

    options = re2.Options()
    options.max_mem = PATTERN_BYTES
    options.never_capture = True
    options.log_errors = False
    if len(pattern) > LONGEST_PATTERN:
        raise _refusal(
            pattern, f"has more than {LONGEST_PATTERN} characters; search for a part of it"
        )
    try:
        return re2.compile(f"(?m){pattern}", options)  # `^` and `$` match at lines
    except re2.error as error:
        raise _refusal(pattern, _reason(error)) from None
    except UnicodeEncodeError:
        raise _refusal(pattern, "holds half a character; write it again") from None


def _refusal(pattern: str, why: str) -> SearchRefused:
    return SearchRefused(f"the regular expression {pattern[:80]!r} {why}")


def _reason(error: Exception) -> str:
    """Return why RE2 refuses a pattern, and what to do instead."""
    message = error.args[0]
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    problem, _, place = text.partition(": ")
    if problem == "invalid perl operator":
        if place.startswith(("(?=", "(?!", "(?<")):
            return "looks ahead or behind, which is not known here; search for less"
        return "has a kind of group that is not known here; use '(?:…)' or '(…)'"
    if problem == "invalid escape sequence":
        if place[1:].isdigit():
            return "refers back to a group, which is not known here; write the text again"
        return f"has an escape {place} that is not known here{_INSTEAD.get(place, '')}"
    return _REASONS.get(problem, f"cannot be used: {text}").format(place)
