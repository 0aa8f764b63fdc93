"""File cache: what was read from a file, kept while the file stays as it is.

Owns how a change is noticed. Invariant: anything that writes a file changes its inode or the
time of its last change, which no program can set; so what is returned is what a new reading
would return.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

__all__ = ["FileCache"]

T = TypeVar("T")
_MOST = 8_192
_SETTLED_NS = 50_000_000
"""A file that was changed so shortly before may change again within one tick of the disk."""


class FileCache(Struct):
    """What was read, by path."""

    _known: dict[str, tuple[tuple[int, ...], Any]] = field(default_factory=dict)

    def read(self, path: Path, read: Callable[[], T], kind: str = "") -> T:
        """Return what `read` returned for this state of the file, or call it."""
        key = f"{kind}:{path}"
        before = _state(path)
        known = self._known.get(key)
        if known is not None and known[0] == before:
            value: T = known[1]
            return value
        value = read()
        if before is not None and before == _state(path):
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = before, value
        return value


def _state(path: Path) -> tuple[int, ...] | None:
    """Return what changes with a file; None where it cannot be told apart from its next state."""
    try:
        found = path.stat()
    except OSError:
        return None
    if abs(time.time_ns() - found.st_ctime_ns) < _SETTLED_NS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
