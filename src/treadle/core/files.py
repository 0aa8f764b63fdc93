"""Files: read up to a size, and replaced whole.

Owns how a file of others is read and how a file of ours is replaced. Invariants: memory is
bounded by the limit, whatever size a file claims to have, and a pipe or a device is refused
without waiting for it; a reader finds the old file or the new one, never a part of it.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from .errors import ConfigError
from .typed import decode_json

__all__ = [
    "MOST_PRIVATE_BYTES",
    "is_directory",
    "is_there",
    "open_regular",
    "open_replacement",
    "opened_path",
    "read_bounded",
    "read_private_json",
    "replace_file",
    "write_private_json",
]

MOST_PRIVATE_BYTES = 16 << 20
"""The largest small file of ours that is read."""

T = TypeVar("T", bound=Struct)


def is_there(path: Path) -> bool:
    """Return whether there is something; unlike `Path.exists`, also where nobody may look."""
    return os.path.exists(path)  # noqa: PTH110


def is_directory(path: Path) -> bool:
    """Return whether there is a directory; unlike `Path.is_dir`, also where nobody may look."""
    return os.path.isdir(path)  # noqa: PTH112


def read_bounded(path: Path, most: int) -> bytes:
    """Read a regular file. Raises `OSError`, also where it has more than `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return data


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading. Raises `OSError` for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
        return open(descriptor, "rb")  # noqa: PTH123 - a descriptor, closed by the caller
    except BaseException:
        os.close(descriptor)
        raise


def opened_path(file: io.BufferedReader, path: Path) -> Path:
    """Return where an open `file` really lies, free of links; `path` is how it was named.

    Raises `OSError` for one that was moved or removed meanwhile.
    """
    found = os.fstat(file.fileno())
    link = Path(f"/proc/self/fd/{file.fileno()}")
    real = link.readlink() if link.exists() else Path(os.path.realpath(path))
    named = real.stat()
    if not found.st_nlink or (found.st_dev, found.st_ino) != (named.st_dev, named.st_ino):
        raise OSError(errno.ESTALE, "changed while it was opened", str(path))
    return real


def _check_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_private_json(path: Path, kind: type[T]) -> T:
    """Read a small JSON file of ours; return the defaults of `kind` when there is none.

    Raises `ConfigError`.
    """
    try:
        return decode_json(read_bounded(path, MOST_PRIVATE_BYTES), kind)
    except (FileNotFoundError, NotADirectoryError):
        return kind()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "Treadle did not write it"
        raise ConfigError(f"cannot read {str(path)!r}: {why}; repair or remove it") from None


def write_private_json(path: Path, value: Struct) -> None:
    """Replace a small JSON file of ours by `value`."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def replace_file(path: Path, body: bytes) -> None:
    """Replace a file by `body`, durably; make its directory if there is none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_replacement(path) as file:
        file.write(body)


@contextmanager
def open_replacement(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path`, durably, when the block ends without an error.

    Only its owner can read it, from its first byte on.
    """
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:40]}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
