"""Chunks applied to the text of one file, in memory.

Owns the lines of a file with their endings, where a chunk lands, and what replaces it. Two
lines count as equal in four ways, from exact to forgiving. Invariants: a line that no chunk
changes comes back byte for byte, also a context line that was matched forgivingly; a stricter
way that finds anything wins over a laxer one, wherever that would find it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from .errors import PatchFailed
from .parser import WHITESPACE, Chunk

__all__ = [
    "MOST_COMPARED",
    "LineSearch",
    "TextLines",
    "decode",
    "encode",
    "printable",
    "update_text",
]

MOST_COMPARED = 20_000_000
"""Lines of a file that may be compared for all chunks together."""

_BOM = "\ufeff"
_ENDING = re.compile("(\r\n|\n|\r)")
_GUESSES = 32
"""False beginnings after which a search changes to the linear way."""

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

_Parts: TypeAlias = list[int | str]


class _Replacement(Struct, frozen=True):
    """`size` lines from `start` are replaced by kept lines (offsets) and new ones."""

    start: int
    size: int
    parts: _Parts


def update_text(text: str, chunks: Sequence[Chunk], path: Path) -> str:
    """Return `text` with every chunk applied. Raises `PatchFailed`, which names `path`."""
    document = TextLines.read(text)
    if document.bom:
        chunks = [_without_bom(chunk) for chunk in chunks]
    replacements = _replacements(LineSearch(document.texts), chunks, path)
    return document.rebuild(_merge(len(document.texts), replacements))


def _without_bom(chunk: Chunk) -> Chunk:
    """Return `chunk` without a byte order mark, which belongs to the file."""
    lines = tuple(type(line)(line.kind, line.text.removeprefix(_BOM)) for line in chunk.lines)
    return Chunk(lines, chunk.context and chunk.context.removeprefix(_BOM), chunk.at_end)


def _replacements(search: LineSearch, chunks: Sequence[Chunk], path: Path) -> list[_Replacement]:
    found: list[_Replacement] = []
    position = 0
    for chunk in chunks:
        if chunk.context is not None:
            position = _after_context(search, chunk.context, position, path)
        if not chunk.old:
            found.append(_Replacement(len(search), 0, list(chunk.new)))
            continue
        replacement = _replacement(search, chunk, position)
        if replacement is None:
            wanted = "\n".join(chunk.old)
            raise PatchFailed(f"Failed to find expected lines in {path}:\n{wanted}", path)
        found.append(replacement)
        position = replacement.start + replacement.size
    return sorted(found, key=lambda replacement: replacement.start)


def _after_context(search: LineSearch, context: str, position: int, path: Path) -> int:
    found = search.find([context], position)
    if found is None:
        raise PatchFailed(f"Failed to find context '{context}' in {path}", path)
    return found + 1


def _replacement(search: LineSearch, chunk: Chunk, position: int) -> _Replacement | None:
    old, parts = chunk.old, _parts(chunk)
    start = search.find(old, position, at_end=chunk.at_end)
    if start is None and old[-1] == "":
        # An empty last line often stands for nothing but the end of the file.
        old, parts = old[:-1], _without_last_empty(chunk, parts)
        start = search.find(old, position, at_end=chunk.at_end)
    return None if start is None else _Replacement(start, len(old), parts)


def _parts(chunk: Chunk) -> _Parts:
    parts: _Parts = []
    offset = 0
    for line in chunk.lines:
        if line.kind != "-":
            parts.append(line.text if line.kind == "+" else offset)
        offset += line.kind != "+"
    return parts


def _without_last_empty(chunk: Chunk, parts: _Parts) -> _Parts:
    if chunk.new and chunk.new[-1] == "":
        parts = parts[:-1]
    gone = len(chunk.old) - 1
    return ["" if part == gone else part for part in parts]


def _merge(size: int, replacements: Sequence[_Replacement]) -> Iterator[int | str]:
    position = 0
    for each in replacements:
        yield from range(position, each.start)
        for part in each.parts:
            yield part if isinstance(part, str) else each.start + part
        position = each.start + each.size
    yield from range(position, size)


class TextLines(Struct, frozen=True):
    """Lines, each with the ending it has; the last one may have none."""

    texts: tuple[str, ...]
    endings: tuple[str, ...]
    bom: str = ""

    @staticmethod
    def read(text: str) -> TextLines:
        """Return the lines of `text`."""
        bom = _BOM if text.startswith(_BOM) else ""
        parts = _ENDING.split(text.removeprefix(_BOM))
        texts, endings = parts[::2], [*parts[1::2], ""]
        if not texts[-1]:
            texts.pop()
            endings.pop()
        return TextLines(tuple(texts), tuple(endings), bom)

    @property
    def new_ending(self) -> str:
        """Return how a new line ends: like the first one of the file."""
        return self.endings[0] or "\n" if self.endings else "\n"

    def rebuild(self, lines: Iterable[int | str]) -> str:
        """Return the text of kept lines (their number) and new ones, each with an ending."""
        ending = self.new_ending
        parts = (
            line + ending
            if isinstance(line, str)
            else self.texts[line] + (self.endings[line] or ending)
            for line in lines
        )
        return self.bom + "".join(parts)


def decode(data: bytes) -> str:
    """Return bytes as text; what is no UTF-8 stays as lone surrogates."""
    return data.decode(errors="surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that `decode` read. Raises `UnicodeEncodeError` for other surrogates."""
    return text.encode(errors="surrogateescape")


def printable(text: str) -> str:
    """Return `text` for people and models: what is no UTF-8 as replacement characters."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _exact(line: str) -> str:
    return line


def _without_tail(line: str) -> str:
    return line.rstrip(WHITESPACE)


def _without_ends(line: str) -> str:
    return line.strip(WHITESPACE)


def _plain(line: str) -> str:
    return line.strip(WHITESPACE).translate(_LOOKALIKES)


_PASSES: tuple[Callable[[str], str], ...] = (_exact, _without_tail, _without_ends, _plain)


class LineSearch:
    """The lines of a file, prepared to be searched many times."""

    def __init__(self, lines: Sequence[str], most: int = MOST_COMPARED) -> None:
        self._forms = [list(lines)]
        """The lines as each pass reads them, made when a pass is first needed."""
        self._left = most

    def __len__(self) -> int:
        return len(self._forms[0])

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """Return where `wanted` is, at `start` or later; with `at_end` only at the very end.

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
            self._count((last if found is None else found) - first + len(wanted))
            if found is not None:
                return found
        return None

    def _count(self, lines: int) -> None:
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
    return _linear_position(lines, wanted, first, last)


def _linear_position(lines: list[str], wanted: list[str], first: int, last: int) -> int | None:
    """Do the same with one look at each line (Knuth, Morris and Pratt), never quadratic."""
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
    """Return for each beginning of `wanted` the longest shorter one that also ends it."""
    borders = [0] * len(wanted)
    matched = 0
    for at in range(1, len(wanted)):
        while matched and wanted[at] != wanted[matched]:
            matched = borders[matched - 1]
        matched += wanted[at] == wanted[matched]
        borders[at] = matched
    return borders
