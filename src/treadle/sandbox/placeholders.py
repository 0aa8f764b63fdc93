"""Placeholders: empty directories that keep commands from creating a protected name.

A mount needs something to be mounted on, so a protected path that does not exist gets an
empty directory while commands run. Owns making and removing them. Invariant: one is removed
only when no sandbox of this home is running, because that would free the name for the others.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.errors import SandboxUnavailable
from .boundary import Boundary

__all__ = ["hold_placeholders", "is_placeholder"]

_MODE = stat.S_ISVTX | 0o555
"""Sticky and not writable: nobody makes such a directory by accident."""


@contextmanager
def hold_placeholders(boundary: Boundary, lock_file: Path) -> Iterator[None]:
    """Keep every protected name of `boundary` taken until the end of the block."""
    protected = _protected_paths(boundary)
    lock = _open_lock(lock_file)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        for gap in sorted({gap for path in protected if (gap := _gap(path))}):
            _make(gap)
        yield
    finally:
        # Whatever fails here, a lock that is not released would stop every later command.
        try:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for path in protected:
                    _remove(path)
        finally:
            os.close(lock)


def _open_lock(lock_file: Path) -> int:
    try:
        lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SandboxUnavailable(
            f"cannot open the lock {str(lock_file)!r}: {error.strerror}; make it writable"
        ) from error


def is_placeholder(path: Path) -> bool:
    """Return whether `path` is a directory that was made here."""
    return path.is_dir() and stat.S_IMODE(path.lstat().st_mode) == _MODE


def _protected_paths(boundary: Boundary) -> list[Path]:
    """Return the read-only paths in a place that can otherwise be written."""
    return [
        rule.path
        for rule in boundary.rules
        if rule.access == "read" and boundary.enclosing_root(rule.path)
    ]


def _gap(path: Path) -> Path | None:
    """Return the topmost part of `path` that does not exist."""
    if os.path.lexists(path):
        return None
    while not os.path.lexists(path.parent):
        path = path.parent
    return path


def _make(gap: Path) -> None:
    """Make a placeholder. Where we may not, a command of the same user may not either."""
    try:
        gap.mkdir(mode=0o700)
        gap.chmod(_MODE)
    except (PermissionError, FileExistsError):
        return
    except OSError as error:
        if error.errno == errno.EROFS:
            return
        raise SandboxUnavailable(
            f"cannot keep {str(gap)!r} from being made: {error.strerror}; "
            "make it yourself, or use the sandbox mode 'read-only'"
        ) from error


def _remove(path: Path) -> None:
    """Remove the placeholder for `path`, at `path` or above it."""
    for place in (path, *path.parents):
        if os.path.lexists(place):
            if is_placeholder(place):
                place.rmdir()
            return
