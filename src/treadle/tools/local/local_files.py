"""Files of this machine, read and replaced inside a boundary.

Owns the checks for what happens in this process. Invariant: the file that is checked is the
file that is opened; a link swapped in between changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from ...core.ids import uuid7
from ...sandbox.boundary import Boundary
from ...sandbox.pinned import PinnedPath
from ...sandbox.reading import open_readable

__all__ = ["read_file", "replace_file"]


def read_file(path: Path, boundary: Boundary, limit: int | None = None) -> bytes:
    """Read a regular file that `boundary` lets commands read."""
    with open_readable(path, boundary) as file:
        return file.read() if limit is None else file.read(limit)


def replace_file(path: Path, data: bytes, boundary: Boundary) -> None:
    """Write `data` to `path`, whole or not at all; a file that is there keeps its mode."""
    with boundary.pin(path) as pinned:
        temporary = f".{pinned.name[:100]}.{uuid7().hex}.tmp"
        try:
            _write_new(pinned.parent, temporary, data, _mode(pinned))
            os.rename(temporary, pinned.name, src_dir_fd=pinned.parent, dst_dir_fd=pinned.parent)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=pinned.parent)
            raise


def _mode(pinned: PinnedPath) -> int | None:
    try:
        found = os.stat(pinned.name, dir_fd=pinned.parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is no regular file", pinned.name)
    return stat.S_IMODE(found.st_mode)


def _write_new(parent: int, name: str, data: bytes, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=parent)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - no path
        file.write(data)
        file.flush()
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
