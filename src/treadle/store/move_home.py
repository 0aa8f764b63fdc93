"""Moving a home to another place.

Owns the checks and the order. Invariants: at every moment the home is complete in one of
the two places, so that an interrupted move loses nothing; and no home moves while
somebody writes in it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from ..core.errors import StoreBusy, StoreError, StoreReadOnly
from .database import connect, open_reader, sqlite_errors
from .lease import FileLock, describe_holder

__all__ = ["Move", "move_home", "plan_move"]

Rename: TypeAlias = Callable[[Path, Path], object]

_LOG = "log.db"
_BUSY_SECONDS = 0.2
"""How long to wait for others that use the log."""


class Move(Struct, frozen=True):
    """A move of a home from one place to another."""

    source: str
    target: str
    way: Literal["rename", "copy"]
    """Whether the places lie on one file system, so that nothing has to be copied."""
    files: int
    size: int
    """Bytes in those files."""


def plan_move(source: Path, target: Path) -> Move:
    """Return how `source` would move to `target`; change nothing.

    Raises `StoreError` where it may not move, and `StoreBusy` while it is in use.
    """
    _check(source, target)
    with _hold_threads(source):
        return _plan(source, target)


def move_home(source: Path, target: Path, *, rename: Rename = Path.rename) -> Move:
    """Move `source` to `target`, which is not there yet, or empty.

    Where `rename` cannot, because they lie on two file systems, it is copied. Raises
    `StoreError` where it may not move, and `StoreBusy` while it is in use. Then nothing has
    changed, unless the message says so.
    """
    _check(source, target)
    with _hold_threads(source):
        move = _plan(source, target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return _rename_or_copy(source, target, move, rename)
        except OSError as error:
            raise StoreReadOnly(
                f"cannot move {str(source)!r} to {str(target)!r} ({error.strerror or error}); "
                "check the owner, the mode and the free space of both places"
            ) from error


def _check(source: Path, target: Path) -> None:
    if source.is_symlink():
        raise StoreError(
            f"{str(source)!r} is a link to {str(source.resolve())!r}; "
            "set TREADLE_HOME to that directory instead of moving it"
        )
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise StoreError(f"{str(source)!r} and {str(target)!r} overlap; name another place")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise StoreError(f"{str(target)!r} is no directory; move it away, or name another place")
    if target.is_dir() and any(target.iterdir()):
        raise StoreError(
            f"{str(target)!r} exists and is not empty; move it away, or name another place"
        )


@contextmanager
def _hold_threads(source: Path) -> Iterator[None]:
    """Hold every thread of a home during the block. Raises `StoreBusy` while one is in use."""
    with ExitStack() as stack:
        for path in sorted((source / "locks").glob("*.lock")):
            lock = FileLock(path)
            if not lock.acquire():
                raise StoreBusy(
                    f"thread {path.stem!r} is being written by {_holder(source, path.stem)}; "
                    "end that, then move the home"
                )
            stack.callback(lock.release)
        _checkpoint(source / _LOG)
        yield


def _holder(source: Path, thread: str) -> str:
    log = source / _LOG
    if not log.exists():
        return "another process"
    with closing(open_reader(log)) as connection, sqlite_errors(log):
        return describe_holder(connection, thread)


def _checkpoint(log: Path) -> None:
    """Write the WAL of a log into its file. Raises `StoreBusy` while the log is open elsewhere."""
    if not log.exists():
        return
    with sqlite_errors(log), closing(connect(log, "mode=rw", _BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _plan(source: Path, target: Path) -> Move:
    beside = next(place for place in (target, *target.parents) if place.exists())
    files = [path for path in source.rglob("*") if path.is_file() and not path.is_symlink()]
    return Move(
        source=str(source),
        target=str(target),
        way="rename" if source.stat().st_dev == beside.stat().st_dev else "copy",
        files=len(files),
        size=sum(path.stat().st_size for path in files),
    )


def _rename_or_copy(source: Path, target: Path, move: Move, rename: Rename) -> Move:
    try:
        # An empty directory at the target is replaced.
        rename(source, target)
    except OSError as error:
        # Mounts of one file system may count as two.
        if error.errno != errno.EXDEV:
            raise
    else:
        return structs.replace(move, way="rename")
    _copy(source, target)
    _remove(source, target)
    return structs.replace(move, way="copy")


def _copy(source: Path, target: Path) -> None:
    """Copy a home beside the target, compare it, and give it its name when it is whole."""
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # what a move that broke off left there
    try:
        shutil.copytree(
            source, unfinished, symlinks=True, ignore=_channels, copy_function=_copy_file
        )
        _compare(unfinished, source)
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _compare(copy: Path, source: Path) -> None:
    if _contents(copy) != _contents(source):
        raise StoreError(
            f"the copy of {str(source)!r} is not what it was made of; "
            "nothing was moved: check the disk, and try again"
        )


def _remove(source: Path, target: Path) -> None:
    """Remove what was copied; under another name first, lest half a home be found."""
    gone = source.with_name(f".{source.name}.moved")
    try:
        source.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise StoreError(
            f"the home was copied to {str(target)!r}, but the old one could not be removed "
            f"({error.strerror or error}): remove {str(source)!r} and {str(gone)!r} yourself"
        ) from error


def _copy_file(source: str, target: str) -> None:
    shutil.copy2(source, target)
    with Path(target).open("rb") as file:
        os.fsync(file.fileno())


def _channels(directory: str, names: list[str]) -> list[str]:
    """Return the names of sockets and pipes, which cannot be copied."""
    return [name for name in names if _is_channel(Path(directory, name))]


def _is_channel(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)


def _contents(home: Path) -> dict[str, str]:
    """Return the contents of a home by path: a digest, or the target of a link."""
    return {
        str(path.relative_to(home)): _content(path)
        for path in home.rglob("*")
        if not _is_channel(path)
    }


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    if path.is_dir():
        return "directory"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
