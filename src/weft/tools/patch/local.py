"""Files of this machine, changed atomically.

Owns the order of things on disk: every new content is written beside its target
and synced before the first rename; what a rename replaces is kept until the last
one is done. Invariant: at any moment, also of a kill, a file has its old or its
new content, and after a failure its old one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .errors import PatchFailed, PatchStale, UndoFailed, system_reason
from .files import Edit, digest

__all__ = ["LocalFiles"]

_PREFIX = ".weft-patch-"


class LocalFiles:
    """The file system of this process."""

    def locate(self, path: Path, *, follow: bool) -> Path:
        """The real place of `path`."""
        if follow or path.name in ("", ".."):
            return _real(path)
        return _real(path.parent) / path.name

    def read(self, place: Path) -> bytes | None:
        """The content of a regular file, None where nothing is."""
        try:
            # A pipe without a writer must not make a patch wait.
            number = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(number, "rb") as file:
            mode = os.fstat(number).st_mode
            if not stat.S_ISREG(mode):
                code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
                raise OSError(code, os.strerror(code), str(place))
            return file.read()

    def replace(self, edits: Sequence[Edit]) -> None:
        """Make all edits, or none."""
        work = _Work(self.read)
        try:
            for edit in edits:
                work.stage(edit)
            for edit in edits:
                work.swap(edit)
            work.sync()
        except BaseException as error:
            work.undo(error)
            raise
        work.forget()


@dataclass(slots=True)
class _Work:
    """A set of edits under way, and how to take them back."""

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
        with _explained("write", edit.place):
            self._make_parents(edit.place)
            like = edit.place if edit.before is not None else edit.like
            if edit.before is not None and not os.access(edit.place, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            beside = self.staged[edit.place] = _beside(edit.place)
            _write(beside, edit.data, like)

    def swap(self, edit: Edit) -> None:
        """Put the new content in place of the old one, which is kept."""
        self._check(edit)
        with _explained("write" if edit.data is not None else "delete", edit.place):
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
            os.link(beside, place)
        except FileExistsError:
            raise PatchStale(place) from None
        except OSError:
            beside.rename(place)
        self.swapped.append(place)

    def _overwrite(self, edit: Edit) -> None:
        kept = self.kept[edit.place]
        if edit.data is None:
            edit.place.rename(kept)
        else:
            _keep(edit.place, kept)
            self.staged[edit.place].replace(edit.place)

    def sync(self) -> None:
        """Make the new names durable."""
        for directory in {place.parent for place in self.swapped}:
            with suppress(OSError):
                _sync(directory)

    def undo(self, error: BaseException) -> None:
        """Restore everything. Raises `UndoFailed` when something resists."""
        left = [place for place in reversed(self.swapped) if not self._restore(place)]
        self.forget()
        for directory in reversed(self.made):
            with suppress(OSError):
                directory.rmdir()
        if left:
            raise UndoFailed(str(error), tuple(left)) from error

    def forget(self) -> None:
        """Drop what was staged and what was kept for undoing."""
        for place in (*self.staged.values(), *self.kept.values()):
            with suppress(OSError):
                place.unlink()

    def _restore(self, place: Path) -> bool:
        kept = self.kept.get(place)
        try:
            if kept is None:
                place.unlink()
            elif kept.is_symlink() or kept.exists():
                kept.replace(place)
        except OSError:
            # The old content stays where it was kept: nobody else has it now.
            self.kept.pop(place, None)
            return False
        return True

    def _check(self, edit: Edit) -> None:
        """The content must be what the edit was planned for, and at the same place."""
        with _explained("read", edit.place):
            data = self.read(edit.place)
            moved = _real(edit.place.parent) != edit.place.parent
        if moved or (None if data is None else digest(data)) != edit.before:
            raise PatchStale(edit.place)

    def _make_parents(self, place: Path) -> None:
        missing = [each for each in place.parents if not each.exists()]
        for directory in reversed(missing):
            directory.mkdir()
            self.made.append(directory)


def _real(path: Path) -> Path:
    """`path` without links; a loop of them stays, and is refused when it is opened."""
    return Path(os.path.realpath(path))


@contextmanager
def _explained(verb: str, place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"Failed to {verb} file {place}: {system_reason(error)}"
        raise PatchFailed(what, place) from error


def _beside(place: Path) -> Path:
    return place.parent / f"{_PREFIX}{secrets.token_hex(8)}"


def _keep(place: Path, kept: Path) -> None:
    """A second name for the old content; a copy where the file system has no links."""
    try:
        os.link(place, kept, follow_symlinks=False)
    except OSError:
        _write(kept, place.read_bytes(), place)


def _write(place: Path, data: bytes, like: Path | None) -> None:
    # What replaces a private file is private from its first byte.
    mode = 0o666 if like is None else 0o600
    number = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            _imitate(number, like)
        os.fsync(number)


def _imitate(number: int, like: Path) -> None:
    """Give an open file the owner, extended attributes and mode of `like`."""
    there = like.stat()
    mode = stat.S_IMODE(there.st_mode)
    try:
        os.fchown(number, there.st_uid, there.st_gid)
    except OSError:
        # Whoever owns it now must not inherit a right to act as somebody else.
        mode &= 0o777
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(like):
                os.setxattr(number, name, os.getxattr(like, name))
    os.fchmod(number, mode)


def _sync(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
