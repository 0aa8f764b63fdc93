"""AGENTS.md files that were read before: read again when something about them has changed.

Owns the marks of every path that was looked at. Invariant: what is kept is what reading again
would give: nothing is kept that has a problem, or that changed so short a time ago that the
next change could have the same time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from ..core.files import open_regular
from .machine import DocsRules, OpenFile, discover
from .prompt_context import AgentsDocs

__all__ = ["KeptDocs"]

_Mark: TypeAlias = tuple[int, int, int, int, int]
"""Device, number, size, and when content and anything else last changed."""


class KeptDocs(Struct):
    """What was read last, and what decides whether it still holds."""

    settles_after: int = 2_000_000_000
    """Nanoseconds: some disks count time in steps of two seconds."""
    _asked: tuple[object, ...] | None = None
    _marks: dict[str, tuple[_Mark | None, _Mark | None]] = field(default_factory=dict)
    """Of each path: the entry itself, and what it leads to."""
    _docs: AgentsDocs | None = None

    def discover(
        self,
        cwd: Path,
        *,
        home: Path | None = None,
        rules: DocsRules | None = None,
        open_file: OpenFile = open_regular,
    ) -> AgentsDocs | None:
        """Return what `machine.discover` does. Blocks on files."""
        asked = (cwd, home, rules)
        if asked == self._asked and all(_marks(path) == seen for path, seen in self._marks.items()):
            return self._docs
        seen: dict[str, tuple[_Mark | None, _Mark | None]] = {}

        def looks(path: Path) -> bool:
            marks = seen[str(path)] = _marks(str(path))
            return marks[0] is not None

        before = time.time_ns() - self.settles_after
        docs = discover(cwd, home=home, rules=rules, open_file=open_file, looks=looks)
        marks = (mark for both in seen.values() for mark in both if mark is not None)
        is_settled = all(max(mark[3], mark[4]) < before for mark in marks)
        may_keep = is_settled and (docs is None or not docs.problems)
        self._asked, self._marks, self._docs = asked if may_keep else None, seen, docs
        return docs


def _marks(path: str) -> tuple[_Mark | None, _Mark | None]:
    entry = _mark(path, follow=False)
    return entry, _mark(path, follow=True) if entry else None


def _mark(path: str, *, follow: bool) -> _Mark | None:
    try:
        found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - half the cost of a path's
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
