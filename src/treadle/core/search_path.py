"""The search path: programs that Treadle itself runs.

Owns finding them by name. Invariant: none is taken from the working directory, where a
repository or a command could have put it. What only root can write is no such place for
anybody else, so that Treadle finds the system's programs when it is started in `/`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["explain_missing", "find_program", "find_programs", "working_directory"]

_NOWHERE = Path("/nonexistent")


def working_directory() -> Path:
    """Return the working directory; one that is gone holds no program."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return _NOWHERE


def find_program(name: str, search: str | None = None) -> Path | None:
    """Return the program `name` from an absolute directory of `search`, never from below here."""
    return next(find_programs(name, search), None)


def find_programs(name: str, search: str | None = None) -> Iterator[Path]:
    """Yield all programs `name` that `find_program` could return, in the order of `search`."""
    here = working_directory()
    for file in _programs(name, search):
        real = Path(os.path.realpath(file))
        below = [each for each in (file, real) if each.is_relative_to(here)]
        if all(map(_is_roots_alone, below)):
            yield file


def explain_missing(name: str, package: str, search: str | None = None) -> str:
    """Return why `find_program` has not found a program of `package`, and what to do."""
    file = next(_programs(name, search), None)
    if file is None:
        return f"{name!r} is not on the search path; install {package}"
    return (
        f"{str(file)!r} lies below the working directory {str(working_directory())!r}, where a "
        "command could have put it; start Treadle in another directory"
    )


def _programs(name: str, search: str | None) -> Iterator[Path]:
    """Yield the programs called `name` in the absolute directories of `search`."""
    if search is None:
        search = os.environ.get("PATH", os.defpath)
    for directory in map(Path, search.split(os.pathsep)):
        file = directory / name
        # Asked of the kernel: `is_file` raises for a directory that we may not enter.
        if directory.is_absolute() and os.access(file, os.X_OK) and file.is_file():
            yield file


def _is_roots_alone(file: Path) -> bool:
    """Return whether nobody but root can write a file or anything above it, and we are not root."""
    return os.geteuid() != 0 and all(map(_belongs_to_root, (file, *file.parents)))


def _belongs_to_root(path: Path) -> bool:
    found = path.lstat()
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == 0 and (stat.S_ISLNK(found.st_mode) or not writable)
