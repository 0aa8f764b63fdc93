"""Differences between texts, and between the segments of two requests.

Owns how far a comparison goes. Invariant: its cost is bounded whatever it is given: what is
too long is shown as removed and added, and says that it was cut.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..core.errors import TreadleError
from ..core.redact import redact
from ..tools.patch.parser import AddFile, DeleteFile, UpdateFile, parse_patch

__all__ = ["DiffLine", "Op", "align", "diff_lines", "patch_view"]

Op: TypeAlias = Literal["same", "removed", "added", "changed"]
Stretch: TypeAlias = tuple[Op, int, int, int, int]
"""What became of a part of the first list, and the bounds of it in both."""

_MOST_LINES = 1_200
"""Lines of a text that are compared."""
_MOST_CHARACTERS = 120_000
_LONGEST_LINE = 2_000
_MOST_SHOWN = 600
_CONTEXT = 3
_MOST_PATCH = 400


class DiffLine(Struct, frozen=True):
    """A line of a difference."""

    op: Literal[" ", "-", "+", "…"]
    text: str


def align(before: Sequence[str], after: Sequence[str]) -> list[Stretch]:
    """Return how one list of digests becomes the other, in stretches of both.

    What both begin and end with is left out of the comparison; where the rest is long, it is
    compared by its place alone.
    """
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    rest = min(len(before), len(after)) - start
    while end < rest and before[len(before) - 1 - end] == after[len(after) - 1 - end]:
        end += 1
    found: list[Stretch] = []
    if start:
        found.append(("same", 0, start, 0, start))
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    found += _middle(old, new, start)
    if end:
        found.append(("same", len(before) - end, len(before), len(after) - end, len(after)))
    return found


def _middle(old: Sequence[str], new: Sequence[str], start: int) -> list[Stretch]:
    if not old and not new:
        return []
    if len(old) * len(new) > _MOST_LINES * _MOST_LINES:
        return [("changed", start, start + len(old), start, start + len(new))]
    names: dict[str, Op] = {
        "equal": "same",
        "delete": "removed",
        "insert": "added",
        "replace": "changed",
    }
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        (names[tag], start + a, start + b, start + c, start + d)
        for tag, a, b, c, d in matcher.get_opcodes()
    ]


def diff_lines(old: str, new: str) -> tuple[list[DiffLine], bool]:
    """Return the difference of two texts by lines, and whether something is missing of it."""
    before, cut_old = _lines(old)
    after, cut_new = _lines(new)
    shown: list[DiffLine] = []
    groups = difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT)
    for number, group in enumerate(groups):
        if number:
            shown.append(DiffLine("…", ""))
        for tag, a, b, c, d in group:
            if tag == "equal":
                shown += [DiffLine(" ", line) for line in before[a:b]]
            else:
                shown += [DiffLine("-", line) for line in before[a:b]]
                shown += [DiffLine("+", line) for line in after[c:d]]
        if len(shown) > _MOST_SHOWN:
            return shown[:_MOST_SHOWN], True
    return shown, cut_old or cut_new


def _lines(text: str) -> tuple[list[str], bool]:
    text = redact(text)
    lines = text[:_MOST_CHARACTERS].split("\n")
    cut = len(text) > _MOST_CHARACTERS or len(lines) > _MOST_LINES
    shown = [line[:_LONGEST_LINE] for line in lines[:_MOST_LINES]]
    return shown, cut or any(len(line) > _LONGEST_LINE for line in lines)


def patch_view(tool: str, given: str) -> list[dict[str, Any]] | None:
    """Return the changes that a call of `apply_patch` asks for; None for other calls."""
    if tool not in {"apply_patch", "exec_command", "shell"} or "*** Begin Patch" not in given:
        return None
    start, stop = given.index("*** Begin Patch"), given.rfind("*** End Patch")
    if stop < 0 or tool != "apply_patch":
        return None
    try:
        hunks = parse_patch(given[start : stop + len("*** End Patch")]).hunks
    except TreadleError:
        return None
    changes: list[dict[str, Any]] = []
    for hunk in hunks[:50]:
        match hunk:
            case AddFile():
                lines = [{"op": "+", "text": line} for line in hunk.content.split("\n")]
                changes.append({"op": "add", "old": None, "new": hunk.path, "lines": lines})
            case DeleteFile():
                changes.append({"op": "delete", "old": hunk.path, "new": None, "lines": []})
            case UpdateFile():
                lines = [
                    {"op": line.kind, "text": line.text}
                    for chunk in hunk.chunks
                    for line in chunk.lines
                ]
                new = hunk.move_to or hunk.path
                changes.append({"op": "update", "old": hunk.path, "new": new, "lines": lines})
    for change in changes:
        change["cut"] = len(change["lines"]) > _MOST_PATCH
        change["lines"] = change["lines"][:_MOST_PATCH]
    return changes
