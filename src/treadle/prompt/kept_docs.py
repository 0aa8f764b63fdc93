"""AGENTS.md files that were read before: read again when something about them has changed.

Owns the marks of every path that was looked at. Invariant: what is kept is what reading again
would give: nothing is kept that has a problem, or that changed so short a time ago that the
next change could have the same time.
"""

from __future__ import annotations

import os
import stat
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
_Marks: TypeAlias = tuple[_Mark, ...]
"""Of an entry, and of what it leads to if it is a link; empty where there is nothing."""


class KeptDocs(Struct):
    """What was read last, and what decides whether it still holds."""

    settles_after: int = 2_000_000_000
    """Nanoseconds: some disks count time in steps of two seconds."""
    _asked: tuple[object, ...] | None = None
    _seen: dict[str, _Marks] = field(default_factory=dict)
    """The marks of each path that was looked at."""
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
        if asked == self._asked and all(_marks(path) == was for path, was in self._seen.items()):
            return self._docs
        seen: dict[str, _Marks] = {}

        def looks(path: Path) -> bool:
            name = str(path)
            seen[name] = _marks(name)
            return bool(seen[name])

        before = time.time_ns() - self.settles_after
        docs = discover(cwd, home=home, rules=rules, open_file=open_file, looks=looks)
        is_settled = all(max(mark[3:]) < before for marks in seen.values() for mark in marks)
        may_keep = is_settled and (docs is None or not docs.problems)
        self._asked, self._seen, self._docs = asked if may_keep else None, seen, docs
        return docs


def _marks(path: str) -> _Marks:
    """Return the mark of an entry, and for a link that of what it leads to."""
    found = _stat(path, follow=False)
    if found is None:
        return ()
    if not stat.S_ISLNK(found.st_mode):
        return (_mark(found),)
    target = _stat(path, follow=True)
    return (_mark(found), *(() if target is None else (_mark(target),)))


def _mark(found: os.stat_result) -> _Mark:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _stat(path: str, *, follow: bool) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - half the cost of a path's
    except OSError:
        return None
