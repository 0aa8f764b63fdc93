"""Bounded reading: files of others, read whole up to a size.

Invariant: memory is bounded by the limit, whatever size a file claims to have, and a pipe
or a device is refused without waiting for it.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

__all__ = ["open_regular", "read_bounded"]


def read_bounded(path: Path, most: int) -> bytes:
    """The bytes of a regular file. Raises `OSError`, also where there are more than `most`."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return data


def open_regular(path: Path) -> io.BufferedReader:
    """A regular file, open for reading. Raises `OSError` for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor).st_mode, path)
        return open(descriptor, "rb")  # noqa: PTH123 - a descriptor, closed by the caller
    except BaseException:
        os.close(descriptor)
        raise


def _check(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
