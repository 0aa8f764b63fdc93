"""Single steps on disk, each taken without following a link.

Owns how a file is opened, written, renamed and removed. Invariant: a step happens at the place
it was asked for or not at all, also while a command that still runs swaps directories for
links.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from ...sandbox.pinned import pin_path

__all__ = [
    "can_write",
    "link",
    "make_directory",
    "open_file",
    "remove_directory",
    "rename",
    "sync_directory",
    "unlink",
    "write_new",
]


def open_file(place: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open the file at `place` without following a link; return its descriptor."""
    # A pipe without a writer must not make a patch wait.
    careful = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with pin_path(place) as at:
        return os.open(at.name, flags | careful, mode, dir_fd=at.parent)


def can_write(place: Path) -> bool:
    """Return whether the user may change what is at `place`."""
    with pin_path(place) as at:
        return os.access(at.name, os.W_OK, dir_fd=at.parent)


def write_new(place: Path, data: bytes, like: Path | None) -> None:
    """Make a file that was not there, with the owner and mode of `like`, and sync it."""
    # What replaces a private file is private from its first byte.
    mode = 0o666 if like is None else 0o600
    number = open_file(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            _copy_metadata(number, like)
        os.fsync(number)


def link(old: Path, new: Path) -> None:
    """Give what is at `old` a second name. Raises `FileExistsError`."""
    with pin_path(old) as here, pin_path(new) as there:
        os.link(
            here.name,
            there.name,
            src_dir_fd=here.parent,
            dst_dir_fd=there.parent,
            follow_symlinks=False,
        )


def rename(old: Path, new: Path) -> None:
    """Move what is at `old` to `new`, over what is there."""
    with pin_path(old) as here, pin_path(new) as there:
        os.rename(here.name, there.name, src_dir_fd=here.parent, dst_dir_fd=there.parent)


def unlink(place: Path) -> None:
    """Remove the name `place`."""
    with pin_path(place) as at:
        os.unlink(at.name, dir_fd=at.parent)


def make_directory(place: Path) -> None:
    """Make a directory whose parent is there."""
    with pin_path(place) as at:
        os.mkdir(at.name, dir_fd=at.parent)


def remove_directory(place: Path) -> None:
    """Remove an empty directory."""
    with pin_path(place) as at:
        os.rmdir(at.name, dir_fd=at.parent)


def sync_directory(place: Path) -> None:
    """Make the names in a directory durable."""
    number = open_file(place)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _copy_metadata(number: int, like: Path) -> None:
    """Give an open file the owner, extended attributes and mode of `like`."""
    model = open_file(like)
    try:
        there = os.fstat(model)
        mode = stat.S_IMODE(there.st_mode)
        try:
            os.fchown(number, there.st_uid, there.st_gid)
        except OSError:
            # Whoever owns it now must not inherit a right to act as somebody else.
            mode &= 0o777
        _copy_attributes(model, number)
        os.fchmod(number, mode)
    finally:
        os.close(model)


def _copy_attributes(model: int, number: int) -> None:
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(model):
                os.setxattr(number, name, os.getxattr(model, name))
