"""Leave listings out of outputs: lines that are alike but for their numbers.

Owns which lines are one of many: those of logs, of tables, of progress. Invariant: a line that is
like few others always stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from .passages import Passage

__all__ = ["without_listings"]

_FEWEST = 3
"""So many lines that are alike are a listing."""
_DIGITS = re.compile(r"\d+")
_SHOW_LINES = frozenset({"result", "summary"})
"""The kinds of passages in which lines of outputs stand."""


def without_listings(pieces: Sequence[Passage]) -> list[Passage]:
    """Return the passages without lines that differ from many others in their digits only."""
    shapes = Counter(
        _shape(line) for one in pieces if one.kind in _SHOW_LINES for line in one.text.splitlines()
    )
    listed = {shape for shape, count in shapes.items() if count >= _FEWEST and "0" in shape}
    if not listed:
        return list(pieces)
    return [_without(one, listed) if one.kind in _SHOW_LINES else one for one in pieces]


def _without(one: Passage, listed: set[str]) -> Passage:
    kept = (line for line in one.text.splitlines() if _shape(line) not in listed)
    return msgspec.structs.replace(one, text="\n".join(kept))


def _shape(line: str) -> str:
    """Return a line without its numbers; in a summary it stands behind a mark."""
    return _DIGITS.sub("0", line.strip().removeprefix("- "))
