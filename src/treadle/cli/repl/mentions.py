"""Mentions: files that a line names with ``@``, and what a line says altogether.

Owns what becomes of a typed line before it is sent. Invariant: the words stay as they were
typed; files and images follow them as parts of the same message.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from ...prompt.input import LocalFile, LocalImage, UserPart
from .pastes import IMAGE_SUFFIXES, Pastes

__all__ = ["ProjectFiles", "Said", "compose"]

_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))')
_TRAILING = ".,;:!?)]}'"
_MOST_FILES = 20_000
_MOST_SHOWN = 50
_FRESH_SECONDS = 5.0
_SKIPPED = {"node_modules", "__pycache__", "venv", "target"}


class Said(Struct, frozen=True):
    """A line of the user: as it is shown, and what the model gets."""

    shown: str
    parts: tuple[UserPart, ...]

    @property
    def files(self) -> list[Path]:
        """Return the files that are read for it."""
        return [part.path for part in self.parts if isinstance(part, LocalFile | LocalImage)]


def compose(line: str, pastes: Pastes, cwd: Path) -> Said:
    """Return what a typed line says."""
    mentioned = dict.fromkeys(_find_mentions(line, cwd))
    files = [path for path in mentioned if path.suffix.lower() not in IMAGE_SUFFIXES]
    images = [path for path in mentioned if path.suffix.lower() in IMAGE_SUFFIXES]
    pictures = (*pastes.images_in(line), *map(LocalImage, images))
    return Said(line, (pastes.expand(line), *pictures, *map(LocalFile, files)))


def _find_mentions(line: str, cwd: Path) -> Iterator[Path]:
    for quoted, bare in _MENTION.findall(line):
        names = (quoted,) if quoted else (bare, bare.rstrip(_TRAILING))
        paths = (cwd / Path(name).expanduser() for name in names if name)
        if found := next(filter(_is_file, paths), None):
            yield found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


@dataclass(slots=True)
class ProjectFiles:
    """The files below a directory, for completion."""

    cwd: Path
    _names: list[str] = field(init=False, default_factory=list)
    _looked: float = field(init=False, default=float("-inf"))

    def matching(self, typed: str) -> list[str]:
        """Return names that contain the typed characters in order, the nearest first."""
        if time.monotonic() - self._looked > _FRESH_SECONDS:
            self._names, self._looked = list(_walk(self.cwd)), time.monotonic()
        wanted = re.compile(".*?".join(map(re.escape, typed)), re.IGNORECASE)
        found = [(match, name) for name in self._names if (match := wanted.search(name))]
        found.sort(key=lambda each: (each[0].end() - each[0].start(), len(each[1]), each[1]))
        return [name for _, name in found[:_MOST_SHOWN]]


def _walk(place: Path) -> Iterator[str]:
    """Yield the names of files, without hidden ones and those that nobody wrote; bounded."""
    seen = 0
    for directory, below, files in os.walk(place):
        below[:] = sorted(name for name in below if name[0] != "." and name not in _SKIPPED)
        for name in sorted(files):
            seen += 1
            if seen > _MOST_FILES:
                return
            if name[0] != ".":
                yield os.path.relpath(Path(directory, name), place)
