"""Placeholders: empty directories that keep commands from creating a protected name.

A mount needs something to be mounted on, so a protected path that does not exist gets an
empty directory while commands run. Owns making and removing them. Invariant: one is removed
only when no sandbox needs it, of whatever home, because that would free the name for the others.
Each is its own lock, which is taken away with it: homes share no other file that all can trust.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.errors import SandboxUnavailable
from .boundary import Boundary

__all__ = ["hold_placeholders", "is_placeholder"]

_MODE = stat.S_ISVTX | 0o555
"""Sticky and not writable: nobody makes such a directory by accident."""
_TELLING = stat.S_ISVTX | 0o222
"""The bits by which one is known from its first moment on, whatever the umask and the place add."""
_PATIENCE = 2.0
"""How long a name is taken again that others take away at the same time."""
_PAUSE = 0.001


@contextmanager
def hold_placeholders(boundary: Boundary, lock_file: Path) -> Iterator[None]:
    """Keep every protected name of `boundary` taken until the end of the block.

    `lock_file` is for file systems whose directories cannot be locked: it keeps those of a home.
    """
    held: dict[Path, int] = {}
    lock = _open_lock(lock_file)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        for path in _protected_paths(boundary):
            _hold(path, held)
        yield
    finally:
        # Whatever fails here, a lock that is not released would stop every later command.
        try:
            for place, descriptor in held.items():
                with suppress(OSError):
                    _remove(place, descriptor, lock)
        finally:
            for descriptor in (*held.values(), lock):
                os.close(descriptor)


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
    try:
        return _is_ours(path.lstat())
    except OSError:
        return False


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_mode & _TELLING == stat.S_ISVTX


def _protected_paths(boundary: Boundary) -> list[Path]:
    """Return the read-only paths in a place that can otherwise be written."""
    return [
        rule.path
        for rule in boundary.rules
        if rule.access == "read" and boundary.enclosing_root(rule.path)
    ]


def _hold(path: Path, held: dict[Path, int]) -> None:
    """See that `path` exists, and that nobody takes the placeholder away that it stands on."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        place, status = _last_existing(path)
        if not _is_ours(status):
            if place == path:
                return
            place /= path.relative_to(place).parts[0]
            if not _make(place):
                return
        if place in held:
            return
        if (descriptor := _lock(place)) is not None:
            held[place] = descriptor
            return
        time.sleep(_PAUSE)
    # Who locks one for long, or lets nobody open it, is no Treadle. While it stands, it holds.
    if not _is_ours(_last_existing(path)[1]):
        raise SandboxUnavailable(
            f"cannot keep {str(path)!r} from being made: what holds its place is removed again "
            "and again; make it yourself, or use the sandbox mode 'read-only'"
        )


def _last_existing(path: Path) -> tuple[Path, os.stat_result]:
    """Return the lowest part of `path` that exists, and what it is at this moment."""
    while True:
        try:
            return path, path.lstat()
        except OSError:
            path = path.parent


def _make(place: Path) -> bool:
    """Make a placeholder. Where we may not, a command of the same user may not either."""
    try:
        place.mkdir(mode=_MODE)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return False
        raise SandboxUnavailable(
            f"cannot keep {str(place)!r} from being made: {error.strerror}; "
            "make it yourself, or use the sandbox mode 'read-only'"
        ) from error
    return True


def _lock(place: Path) -> int | None:
    """Open a placeholder, locked as one of those who need it; None if it is being taken away."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        locked = True
    except OSError as error:
        locked = not isinstance(error, BlockingIOError)  # some file systems have no such locks
    if locked and _stands(place, descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _stands(place: Path, descriptor: int) -> bool:
    """Return whether `descriptor` is of the placeholder that is there now."""
    try:
        status = place.lstat()
    except OSError:
        return False
    return _is_ours(status) and os.path.samestat(status, os.fstat(descriptor))


def _remove(place: Path, descriptor: int, lock: int) -> None:
    """Remove a placeholder, unless others need it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError:
        # This file system locks no directories, so only those of this home are asked.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if _stands(place, descriptor):
        place.rmdir()
