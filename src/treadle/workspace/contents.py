"""Reading the files of a directory, without following a link.

Owns the open directory on the way. Invariants: a link that is swapped in on the way makes the
reading fail; a content comes with the status that its file had when the reading began.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from ..sandbox.pinned import pin_path
from .disk_scan import Found

__all__ = ["ContentReader"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class ContentReader:
    """Reads files below `root`; those of one directory are cheap one after the other."""

    def __init__(self, root: Path, most: int) -> None:
        with pin_path(root) as at:
            self._root = os.open(at.name or ".", _DIRECTORY, dir_fd=at.parent)
        self._most = most
        self._name, self._directory = b"", self._root

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        os.close(self._root)

    def read(self, path: bytes) -> tuple[bytes, Found]:
        """Read a file, at most one byte more than `most`. Raises `OSError`."""
        directory, name = self._enter(path)
        descriptor = os.open(name, _FILE, dir_fd=directory)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is no file any more", os.fsdecode(path))
            data = _read_upto(descriptor, found.st_size, self._most + 1)
        finally:
            os.close(descriptor)
        size = len(data) if len(data) > self._most else found.st_size
        mode = stat.S_IMODE(found.st_mode)
        times = found.st_mtime_ns, found.st_ctime_ns
        return data, Found("f", mode, size, *times, found.st_ino)

    def read_link(self, path: bytes) -> bytes:
        """Return the target of a link. Raises `OSError`."""
        directory, name = self._enter(path)
        return os.readlink(name, dir_fd=directory)

    def _enter(self, path: bytes) -> tuple[int, bytes]:
        """Return the open directory of a path, and its name there."""
        parent, _, name = path.rpartition(b"/")
        if parent != self._name:
            self._leave()
            descriptor = self._root
            for each in parent.split(b"/") if parent else ():
                try:
                    deeper = os.open(each, _DIRECTORY, dir_fd=descriptor)
                finally:
                    if descriptor != self._root:
                        os.close(descriptor)
                descriptor = deeper
            self._name, self._directory = parent, descriptor
        return self._directory, name

    def _leave(self) -> None:
        if self._directory != self._root:
            os.close(self._directory)
        self._name, self._directory = b"", self._root


def _read_upto(descriptor: int, expected: int, most: int) -> bytes:
    """Read to the end; a file that grows meanwhile is read up to `most`."""
    data = os.read(descriptor, min(expected + 1, most))
    if len(data) <= expected and len(data) < most:
        return data
    parts, total = [data], len(data)
    while total < most and (more := os.read(descriptor, min(1 << 20, most - total))):
        parts.append(more)
        total += len(more)
    return b"".join(parts)
