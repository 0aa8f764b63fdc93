"""Git directories: where the repository behind a `.git` really lives.

Owns reading `.git` files (worktrees, submodules). Invariant: reads files only,
runs no git, and takes whatever it cannot read for "nothing there".
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["git_directories"]

_MOST = 4096


def git_directories(git: Path) -> tuple[Path, ...]:
    """Directories outside `git` that it names: the target of a `gitdir:` file and what that shares.

    >>> git_directories(Path("/nowhere/.git"))
    ()
    """
    if not git.is_file() or (named := _line(git)) is None or not named.startswith("gitdir:"):
        return ()
    target = git.parent / named.removeprefix("gitdir:").strip()
    common = _line(target / "commondir")
    return (target,) if common is None else (target, target / common)


def _line(file: Path) -> str | None:
    """The first line of a small file, if it can be part of a path."""
    try:
        # A command may have put a pipe where git keeps a file; nobody waits for it.
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            line = os.read(number, _MOST).decode().partition("\n")[0].strip()
        finally:
            os.close(number)
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in line else line
