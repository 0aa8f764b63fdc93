"""Pinned paths: files named from a directory that is held open.

Owns walking to a directory without following a link. Invariant: a command that swaps a link
in, at whatever moment, makes the walk fail; it never redirects it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

__all__ = ["PinnedPath", "pin_path"]

# Passing through a directory takes less permission than reading it.
_THROUGH: int = getattr(os, "O_PATH", os.O_RDONLY)
_FLAGS = _THROUGH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PinnedPath(Struct, frozen=True):
    """A name in a directory that is held open, so that nobody can swap the way to it."""

    parent: int
    name: str


@contextmanager
def pin_path(path: Path) -> Iterator[PinnedPath]:
    """Hold the directory of `path` open; `path` must be absolute and free of links.

    Raises `OSError` where there is a link or no directory on the way.
    """
    descriptor = _open_directory(path.parent)
    try:
        yield PinnedPath(descriptor, path.name)
    finally:
        os.close(descriptor)


def _open_directory(path: Path) -> int:
    descriptor = os.open("/", _FLAGS)
    for name in path.parts[1:]:
        try:
            deeper = os.open(name, _FLAGS, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor
