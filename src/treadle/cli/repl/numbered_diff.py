"""Numbered diffs: the lines of a patch or a diff, each with its number in the file.

Invariant: a number is that of the line in the file as it is after the change, of a removed
line as it was before; a line whose place is not known has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ...tools.patch.errors import InvalidPatch
from ...tools.patch.parser import AddFile, Chunk, DeleteFile, Hunk, UpdateFile, parse_patch

__all__ = ["NumberedLine", "ReadLines", "number_diff", "number_patch"]

ReadLines: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the lines of a file by its path in a patch; none where it cannot be read."""

_AT = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))?")
_HEADERS = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "similarity ", "rename ")


class NumberedLine(Struct, frozen=True):
    """One line of a diff."""

    kind: Literal[" ", "+", "-", "@", "file"]
    text: str
    number: int | None = None


def number_patch(patch: str, read: ReadLines, *, applied: bool) -> list[NumberedLine]:
    """Return the lines of a patch; `applied` tells whether the files have changed already."""
    try:
        hunks = parse_patch(patch).hunks
    except InvalidPatch:
        return [NumberedLine(" ", line) for line in patch.split("\n")]
    return [line for hunk in hunks for line in _of_hunk(hunk, read, applied=applied)]


def number_diff(diff: str) -> list[NumberedLine]:
    """Return the lines of a diff in the format of git."""
    return list(_of_diff(diff.rstrip("\n").split("\n")))


def _of_hunk(hunk: Hunk, read: ReadLines, *, applied: bool) -> Iterator[NumberedLine]:
    match hunk:
        case AddFile(path=path, content=content):
            lines = content.removesuffix("\n").split("\n")
            yield NumberedLine("file", f"{path} · new, {_count(lines)}")
            yield from (NumberedLine("+", text, at) for at, text in enumerate(lines, 1))
        case DeleteFile(path=path):
            yield NumberedLine("file", f"{path} · deleted")
        case UpdateFile(path=path, move_to=moved):
            kinds = [line.kind for chunk in hunk.chunks for line in chunk.lines]
            to = f" → {moved}" if moved else ""
            yield NumberedLine("file", f"{path}{to} · +{kinds.count('+')} -{kinds.count('-')}")
            yield from _of_chunks(hunk.chunks, read(moved if applied and moved else path), applied)


def _count(lines: Sequence[str]) -> str:
    return "1 line" if len(lines) == 1 else f"{len(lines)} lines"


def _of_chunks(
    chunks: Sequence[Chunk], lines: Sequence[str], applied: bool
) -> Iterator[NumberedLine]:
    searched, shift = 0, 0
    for chunk in chunks:
        wanted = [each.text for each in chunk.lines if each.kind != ("-" if applied else "+")]
        at = _find(wanted, lines, searched)
        grown = sum({"+": 1, "-": -1, " ": 0}[each.kind] for each in chunk.lines)
        if chunk is not chunks[0]:
            yield NumberedLine("@", "⋮")
        if at is None:
            yield from (NumberedLine(each.kind, each.text) for each in chunk.lines)
        else:
            old, new = (at - shift, at) if applied else (at, at + shift)
            yield from _number_lines([(each.kind, each.text) for each in chunk.lines], old, new)
            searched = at + len(wanted)
        shift += grown


def _find(wanted: Sequence[str], lines: Sequence[str], start: int) -> int | None:
    """Return where the wanted lines stand; blanks at their ends do not count."""
    if not wanted:
        return None
    stripped = [line.rstrip() for line in wanted]
    for at in range(start, len(lines) - len(stripped) + 1):
        if all(lines[at + n].rstrip() == line for n, line in enumerate(stripped)):
            return at
    return None


def _number_lines(
    lines: Sequence[tuple[Literal[" ", "+", "-"], str]], old: int, new: int
) -> Iterator[NumberedLine]:
    for kind, text in lines:
        old += kind != "+"
        new += kind != "-"
        yield NumberedLine(kind, text, old if kind == "-" else new)


def _of_diff(lines: Sequence[str]) -> Iterator[NumberedLine]:
    old = new = old_end = new_end = 0
    for line in lines:
        kind: Literal[" ", "+", "-"] = "+" if line[:1] == "+" else "-" if line[:1] == "-" else " "
        if line.startswith("\\"):  # "No newline at end of file" is no line of one
            yield NumberedLine(" ", line)
        elif old < old_end or new < new_end:
            yield from _number_lines([(kind, line[1:])], old, new)
            old += kind != "+"
            new += kind != "-"
        elif found := _AT.match(line):
            old, new = int(found[1]) - 1, int(found[3]) - 1
            old_end, new_end = old + int(found[2] or 1), new + int(found[4] or 1)
            yield NumberedLine("@", line)
        else:
            yield NumberedLine("file" if line.startswith(_HEADERS) else " ", line)
