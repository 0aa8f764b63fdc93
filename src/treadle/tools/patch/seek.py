"""Finding lines in a file, from exact to forgiving.

Owns the four ways in which two lines count as the same. Invariant: a stricter
way that finds anything wins over a laxer one, wherever that would find it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .errors import PatchFailed
from .hunks import WHITESPACE

__all__ = ["MOST_COMPARED", "Haystack"]

MOST_COMPARED = 20_000_000
"""Lines of a file that may be looked at for all chunks together."""

_GUESSES = 32
"""False beginnings after which a search goes on the steady way."""

_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys(
            "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
    }
)


def _exact(line: str) -> str:
    return line


def _without_tail(line: str) -> str:
    return line.rstrip(WHITESPACE)


def _stripped(line: str) -> str:
    return line.strip(WHITESPACE)


def _plain(line: str) -> str:
    return line.strip(WHITESPACE).translate(_LOOKALIKES)


_PASSES: tuple[Callable[[str], str], ...] = (_exact, _without_tail, _stripped, _plain)


class Haystack:
    """The lines of a file, ready to be searched many times."""

    def __init__(self, lines: Sequence[str], most: int = MOST_COMPARED) -> None:
        self._forms = [list(lines)]
        """The lines as each pass reads them, made when a pass is first needed."""
        self._left = most

    def __len__(self) -> int:
        return len(self._forms[0])

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """Where `wanted` stands at `start` or later; with `at_end` only at the very end.

        Raises `PatchFailed` when all searches together would take too long.
        """
        if not wanted:
            return start
        last = len(self) - len(wanted)
        first = max(start, last) if at_end else start
        for number, same in enumerate(_PASSES):
            if number == len(self._forms):
                self._forms.append([same(line) for line in self._forms[0]])
            form, needle = self._forms[number], [same(line) for line in wanted]
            found = _position(form, needle, first, last)
            self._spend((last if found is None else found) - first + len(wanted))
            if found is not None:
                return found
        return None

    def _spend(self, lines: int) -> None:
        self._left -= max(lines, 1)
        if self._left < 0:
            raise PatchFailed("the patch has too many chunks for files this long; send fewer")


def _position(lines: list[str], wanted: list[str], first: int, last: int) -> int | None:
    for _ in range(_GUESSES):
        if first > last:
            return None
        try:
            first = lines.index(wanted[0], first, last + 1)
        except ValueError:
            return None
        if lines[first : first + len(wanted)] == wanted:
            return first
        first += 1
    return _steady(lines, wanted, first, last)


def _steady(lines: list[str], wanted: list[str], first: int, last: int) -> int | None:
    """The same in one look at each line (Knuth, Morris and Pratt): slower, and never quadratic."""
    borders = _borders(wanted)
    matched = 0
    for at in range(first, last + len(wanted)):
        while matched and lines[at] != wanted[matched]:
            matched = borders[matched - 1]
        matched += lines[at] == wanted[matched]
        if matched == len(wanted):
            return at - matched + 1
    return None


def _borders(wanted: list[str]) -> list[int]:
    """For each beginning of `wanted`, the longest one of it that also ends it."""
    borders = [0] * len(wanted)
    matched = 0
    for at in range(1, len(wanted)):
        while matched and wanted[at] != wanted[matched]:
            matched = borders[matched - 1]
        matched += wanted[at] == wanted[matched]
        borders[at] = matched
    return borders
