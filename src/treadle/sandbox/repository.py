"""Repositories: whether git, run outside the sandbox, would run anything that commands wrote.

Owns how much of a repository's configuration is understood. Invariant: a repository counts as
plain only if every line of its configuration is known to name no program, every remote of it
is on another machine, and commands can change neither; whatever else it says, the answer is no.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ..core.files import read_bounded
from ..core.words import word_set
from .boundary import Boundary

__all__ = ["Repository", "find_repository"]

_LARGEST_CONFIG = 64 << 10
_SECTION = re.compile(r'\[([A-Za-z.-]+)(?:[ \t]+"([\w./@#+-]+)")?\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*([^\\\"]*)")
_KNOWN = word_set(
    "core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase "
    "core.precomposeunicode core.symlinks core.autocrlf core.eol remote.url remote.fetch "
    "remote.pushurl remote.tagopt branch.remote branch.pushremote branch.merge branch.rebase "
    "branch.vscode-merge-base branch.gh-merge-base user.name user.email pull.rebase push.default "
    "push.autosetupremote init.defaultbranch"
)
_ADDRESS = re.compile(
    r"(?:https?|ssh|git)://[A-Za-z0-9][\w.@:/~%+-]*"
    r"|(?:\w[\w.+-]*@)?[A-Za-z0-9][\w.-]*:(?!:)[\w~][\w./~+-]*"
)
_OTHERS = ("modules", "commondir", "config.worktree")
"""What brings further repositories or further configuration."""
_OWN_CONFIGURATION = ("~/.gitconfig", "~/.config/git/config")


class Repository(Struct, frozen=True):
    """A repository that runs nothing of what commands wrote; and the names of its remotes."""

    remotes: frozenset[str] = frozenset()


def find_repository(directory: Path, boundary: Boundary) -> Repository | None:
    """Return the repository that git finds from `directory` upwards, if it is plain.

    None where commands could put a repository of their own on the way.
    """
    for each in (directory, *directory.parents):
        git = each / ".git"
        if os.path.lexists(git):
            return None if boundary.access(git) == "write" else _read_repository(git)
        # A directory with HEAD, objects and refs in it is a repository by itself.
        if boundary.access(each) == "write" or os.path.lexists(each / "HEAD"):
            return None
    return None


def _read_repository(git: Path) -> Repository | None:
    if git.is_symlink() or not git.is_dir():
        return None
    try:
        if any(os.path.lexists(git / name) for name in _OTHERS) or _has_hooks(git):
            return None
        settings = list(_settings(_read(git / "config")))
    except (OSError, ValueError):
        return None
    remotes = frozenset(part for section, part, *_ in settings if section == "remote")
    return Repository(remotes) if all(_is_plain(each, remotes) for each in settings) else None


def _has_hooks(git: Path) -> bool:
    """Return whether git would run hooks: often they run what the workspace says."""
    hooks = git / "hooks"
    if hooks.is_dir() and any(each.suffix != ".sample" for each in hooks.iterdir()):
        return True
    own = (Path(os.path.expanduser(name)) for name in _OWN_CONFIGURATION)  # noqa: PTH111 - as git
    return any("hookspath" in _read(file).lower() for file in own if os.path.lexists(file))


def _read(file: Path) -> str:
    return read_bounded(file, _LARGEST_CONFIG).decode()


def _settings(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield section, part, name and value. Raises `ValueError` for a line that is neither."""
    section = part = ""
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith(("#", ";")):
            continue
        if head := _SECTION.fullmatch(line):
            section, part = head[1].lower(), head[2] or ""
        elif setting := _SETTING.fullmatch(line):
            yield section, part, setting[1].lower(), setting[2].strip()
        else:
            raise ValueError(f"{line!r} is not understood")


def _is_plain(setting: tuple[str, str, str, str], remotes: frozenset[str]) -> bool:
    section, _, name, value = setting
    match f"{section}.{name}":
        case "core.bare":
            return value == "false"
        case "remote.url" | "remote.pushurl":
            return _ADDRESS.fullmatch(value) is not None
        case "branch.remote" | "branch.pushremote":
            return value in remotes
        case known:
            return known in _KNOWN
