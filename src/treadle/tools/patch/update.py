"""Chunks applied to the text of one file, in memory.

Owns where a chunk lands and what stands there afterwards. Invariant: context
lines stay the file's own lines, also where they were matched forgivingly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from .document import BOM, Document
from .errors import PatchFailed
from .hunks import Chunk
from .seek import Haystack

__all__ = ["updated"]

_Parts: TypeAlias = list[int | str]


class _Replacement(Struct, frozen=True):
    """`size` lines from `start` give way to kept lines (offsets) and new ones."""

    start: int
    size: int
    parts: _Parts


def updated(text: str, chunks: Sequence[Chunk], path: Path) -> str:
    """`text` with every chunk applied. Raises `PatchFailed`, which names `path`."""
    document = Document.read(text)
    if document.bom:
        chunks = [_without_bom(chunk) for chunk in chunks]
    replacements = _replacements(Haystack(document.texts), chunks, path)
    return document.rebuilt(_merged(len(document.texts), replacements))


def _without_bom(chunk: Chunk) -> Chunk:
    """The mark belongs to the file, not to its first line."""
    lines = tuple(type(line)(line.kind, line.text.removeprefix(BOM)) for line in chunk.lines)
    return Chunk(lines, chunk.context and chunk.context.removeprefix(BOM), chunk.at_end)


def _replacements(haystack: Haystack, chunks: Sequence[Chunk], path: Path) -> list[_Replacement]:
    found: list[_Replacement] = []
    position = 0
    for chunk in chunks:
        if chunk.context is not None:
            position = _after_context(haystack, chunk.context, position, path)
        if not chunk.old:
            found.append(_Replacement(len(haystack), 0, list(chunk.new)))
            continue
        replacement = _replacement(haystack, chunk, position)
        if replacement is None:
            wanted = "\n".join(chunk.old)
            raise PatchFailed(f"Failed to find expected lines in {path}:\n{wanted}", path)
        found.append(replacement)
        position = replacement.start + replacement.size
    return sorted(found, key=lambda replacement: replacement.start)


def _after_context(haystack: Haystack, context: str, position: int, path: Path) -> int:
    found = haystack.find([context], position)
    if found is None:
        raise PatchFailed(f"Failed to find context '{context}' in {path}", path)
    return found + 1


def _replacement(haystack: Haystack, chunk: Chunk, position: int) -> _Replacement | None:
    old, parts = chunk.old, _parts(chunk)
    start = haystack.find(old, position, at_end=chunk.at_end)
    if start is None and old[-1] == "":
        # An empty last line often stands for nothing but the end of the file.
        old, parts = old[:-1], _without_last_empty(chunk, parts)
        start = haystack.find(old, position, at_end=chunk.at_end)
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


def _merged(size: int, replacements: Sequence[_Replacement]) -> Iterator[int | str]:
    position = 0
    for each in replacements:
        yield from range(position, each.start)
        for part in each.parts:
            yield part if isinstance(part, str) else each.start + part
        position = each.start + each.size
    yield from range(position, size)
