"""The search path: programs that Treadle itself runs.

Owns finding them by name. Invariant: none is taken from the working directory, where a
repository or a command could have put it.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["find_program", "working_directory"]

_NOWHERE = Path("/nonexistent")


def working_directory() -> Path:
    """Return the working directory; one that is gone holds no program."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return _NOWHERE


def find_program(name: str, search: str | None = None) -> Path | None:
    """Return the program `name` from an absolute directory of `search`, never from below here."""
    here = working_directory()
    if search is None:
        search = os.environ.get("PATH", os.defpath)
    for directory in map(Path, search.split(os.pathsep)):
        file = directory / name
        if not directory.is_absolute() or Path(os.path.realpath(file)).is_relative_to(here):
            continue
        if directory.is_relative_to(here):
            continue
        # Asked of the kernel: `is_file` raises for a directory that we may not enter.
        if os.access(file, os.X_OK) and file.is_file():
            return file
    return None
