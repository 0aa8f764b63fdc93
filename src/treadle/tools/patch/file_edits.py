"""The edits of a patch, made on disk: all of them or none.

Owns the `Files` Protocol and the files of this machine. Every new content is written beside
its target and synced before the first rename; what a rename replaces is kept until the last
one is done. Invariants: at any moment, also of a kill, a file has its old or its new content,
and after a failure its old one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from .disk_steps import (
    can_write,
    link,
    make_directory,
    open_file,
    remove_directory,
    rename,
    sync_directory,
    unlink,
    write_new,
)
from .errors import PatchFailed, PatchStale, UndoFailed, system_reason

__all__ = ["LARGEST_FILE", "Edit", "Files", "LocalFiles", "digest"]

LARGEST_FILE = 64 << 20
"""Bytes of a file that a patch may change, move or delete."""

_PREFIX = ".treadle-patch-"


def digest(data: bytes) -> str:
    """Return what identifies a content."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Edit(Struct, frozen=True, kw_only=True):
    """One file as it will be; `data` None removes it."""

    place: Path
    data: bytes | None
    before: str | None
    """Digest of what was there when the edit was planned; None for nothing."""
    like: Path | None = None
    """A file whose mode and owner a new file takes on."""


class Files(Protocol):
    """Where a patch is applied. Paths are absolute. Methods may block."""

    def locate(self, path: Path, *, follow: bool) -> Path:
        """Return the real place of `path`: no symbolic link and no ``..`` in it.

        With `follow` the last part is resolved too, also when it does not exist yet.
        Raises `OSError` for a loop of links, `ValueError` for what is no path.
        """
        ...

    def read(self, place: Path) -> bytes | None:
        """Read the content, None where nothing is. Raises `OSError`, also for a directory."""
        ...

    def replace(self, edits: Sequence[Edit]) -> None:
        """Make all edits, or none.

        Missing parent directories are made. Modes and owners stay. Raises `PatchStale`
        when a content is not the one an edit was planned for, `PatchFailed` when the
        system refuses; in both cases every file is as it was, and nothing is left over.
        """
        ...


class LocalFiles:
    """The file system of this process, changed atomically."""

    def locate(self, path: Path, *, follow: bool) -> Path:
        """Return the real place of `path`."""
        if follow or path.name in ("", ".."):
            return _real(path)
        return _real(path.parent) / path.name

    def read(self, place: Path) -> bytes | None:
        """Read a regular file; return None where nothing is."""
        try:
            number = open_file(place)
        except FileNotFoundError:
            return None
        with os.fdopen(number, "rb") as file:
            mode = os.fstat(number).st_mode
            if not stat.S_ISREG(mode):
                code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
                raise OSError(code, os.strerror(code), str(place))
            data = file.read(LARGEST_FILE + 1)
            if len(data) > LARGEST_FILE:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(place))
            return data

    def replace(self, edits: Sequence[Edit]) -> None:
        """Make all edits, or none."""
        work = _Transaction(self.read)
        try:
            for edit in edits:
                work.stage(edit)
            for edit in edits:
                work.swap(edit)
            work.sync()
        except BaseException as error:
            work.undo(error)
            raise
        work.clean_up()


@dataclass(slots=True)
class _Transaction:
    """A set of edits in progress, and how to undo them."""

    read: Callable[[Path], bytes | None]
    made: list[Path] = field(default_factory=list)
    staged: dict[Path, Path] = field(default_factory=dict)
    kept: dict[Path, Path] = field(default_factory=dict)
    swapped: list[Path] = field(default_factory=list)

    def stage(self, edit: Edit) -> None:
        """Write the new content beside its target."""
        self._check(edit)
        if edit.data is None:
            return
        with _explain("write", edit.place):
            self._make_parents(edit.place)
            like = edit.place if edit.before is not None else edit.like
            if edit.before is not None and not can_write(edit.place):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            beside = self.staged[edit.place] = _beside(edit.place)
            write_new(beside, edit.data, like)

    def swap(self, edit: Edit) -> None:
        """Put the new content in place of the old one, which is kept for undoing."""
        self._check(edit)
        with _explain("write" if edit.data is not None else "delete", edit.place):
            if edit.before is None:
                self._create(edit.place)
            else:
                self.kept[edit.place] = _beside(edit.place)
                self.swapped.append(edit.place)
                self._overwrite(edit)

    def _create(self, place: Path) -> None:
        beside = self.staged[place]
        try:
            # A link cannot land on a file that somebody made in the meantime; a rename would.
            link(beside, place)
        except FileExistsError:
            raise PatchStale(place) from None
        except OSError:
            rename(beside, place)
        self.swapped.append(place)

    def _overwrite(self, edit: Edit) -> None:
        kept = self.kept[edit.place]
        if edit.data is None:
            rename(edit.place, kept)
        else:
            _keep(edit.place, kept)
            rename(self.staged[edit.place], edit.place)

    def sync(self) -> None:
        """Make the new names durable."""
        for directory in {place.parent for place in self.swapped}:
            with suppress(OSError):
                sync_directory(directory)

    def undo(self, error: BaseException) -> None:
        """Restore everything. Raises `UndoFailed` when something cannot be restored."""
        left = [place for place in reversed(self.swapped) if not self._restore(place)]
        self.clean_up()
        for directory in reversed(self.made):
            with suppress(OSError):
                remove_directory(directory)
        if left:
            raise UndoFailed(str(error), tuple(left)) from error

    def clean_up(self) -> None:
        """Remove what was staged and what was kept for undoing."""
        for place in (*self.staged.values(), *self.kept.values()):
            with suppress(OSError):
                unlink(place)

    def _restore(self, place: Path) -> bool:
        kept = self.kept.get(place)
        try:
            if kept is None:
                unlink(place)
            elif os.path.lexists(kept):
                rename(kept, place)
        except OSError:
            # The old content stays where it was kept: nobody else has it now.
            self.kept.pop(place, None)
            return False
        return True

    def _check(self, edit: Edit) -> None:
        """Check that the content is the one the edit was planned for, at the same place."""
        # What is removed may be a link; what is written never is.
        written = edit.data is not None
        with _explain("read", edit.place):
            if LocalFiles().locate(edit.place, follow=written) != edit.place:
                raise PatchStale(edit.place)
            data = self.read(edit.place if written else _real(edit.place))
        if (None if data is None else digest(data)) != edit.before:
            raise PatchStale(edit.place)

    def _make_parents(self, place: Path) -> None:
        missing = [each for each in place.parents if not each.exists()]
        for directory in reversed(missing):
            make_directory(directory)
            self.made.append(directory)


def _real(path: Path) -> Path:
    """Return `path` without links; a loop of them stays, and opening it fails."""
    return Path(os.path.realpath(path))


@contextmanager
def _explain(verb: str, place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"Failed to {verb} file {place}: {system_reason(error)}"
        raise PatchFailed(what, place) from error


def _beside(place: Path) -> Path:
    return place.parent / f"{_PREFIX}{secrets.token_hex(8)}"


def _keep(place: Path, kept: Path) -> None:
    """Give the old content a second name; copy it where the file system has no links."""
    try:
        link(place, kept)
    except OSError:
        with os.fdopen(open_file(place), "rb") as file:
            write_new(kept, file.read(), place)
