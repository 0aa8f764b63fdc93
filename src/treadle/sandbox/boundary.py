"""Boundaries: a policy applied to the paths of this disk.

Owns the list of path rules and the question "may this be written?". Invariant: the deepest
rule decides, for writes inside this process and for the mounts of a sandboxed command alike,
so the two cannot disagree.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import ConfigError
from ..core.former_name import PROJECT_DIRECTORY
from .pinned import PinnedPath, pin_path
from .policy import PROTECTED_NAMES, SOCKET_DIRECTORIES, Limits, SandboxPolicy

__all__ = ["Access", "Boundary", "PathRule", "find_writable_roots", "resolve_boundary"]

Access: TypeAlias = Literal["write", "read", "hidden"]

_TOP = Path("/")
_KERNELS_OWN = (Path("/proc"), Path("/sys"))
"""What is no file but the kernel itself, which no root opens."""
_NOWHERE = Path("/nonexistent")
_LONGEST_GIT_FILE = 4096
_SKILLS = "skills"
"""In Treadle's home: scripts and references of skills are for commands to run and read."""


class PathRule(Struct, frozen=True):
    """What commands may do with a path and everything below it, up to deeper rules."""

    path: Path
    access: Access
    place: str
    """How everything below the path begins."""

    @classmethod
    def of(cls, path: Path, access: Access) -> PathRule:
        """Return the rule for a path."""
        return cls(path, access, _below(path))


class Boundary(Struct, frozen=True, kw_only=True):
    """What commands may touch. Resolved again for each command, because disks change."""

    rules: tuple[PathRule, ...]
    """Parents before children; at most one rule for a path."""
    confined: bool = True
    """False when the user asked for no sandbox at all."""
    network: bool = False
    hosts: tuple[str, ...] = ()
    """What is reached without `network`, through a proxy."""
    local_sockets: bool = False
    limits: Limits = Limits()

    @property
    def writable_roots(self) -> tuple[str, ...]:
        """Return the directories that may be written, as the model is told of them."""
        return tuple(str(rule.path) for rule in self.rules if rule.access == "write")

    def access(self, path: Path) -> Access:
        """Return what may be done at `path`, which must be absolute and free of links."""
        rule = _deepest(self.rules, path)
        if rule.access == "write" and self._looks_protected(path, rule.path):
            return "read"
        return rule.access

    def is_writable(self, path: Path) -> bool:
        """Return whether this process may create, change or remove `path`.

        Both the entry itself and its target must be writable, so neither a link out of a
        root nor the link `.git` can be used to get around a rule.
        """
        entry = _entry(path)
        return self.access(entry) == self.access(_real(entry)) == "write"

    def is_readable(self, path: Path) -> bool:
        """Return whether a command may read `path`."""
        return self.access(_real(path)) != "hidden"

    @contextmanager
    def pin(self, path: Path) -> Iterator[PinnedPath]:
        """Hold the directory of a writable `path` open while it is changed.

        A link that is swapped in after the check makes this fail; it is not followed.
        Raises `PermissionError` where `path` may not be written.
        """
        entry = _real(path) if path.is_symlink() else _entry(path)
        if not (self.is_writable(path) and self.is_writable(entry)):
            raise PermissionError(f"{str(path)!r} is outside the writable roots")
        with pin_path(entry) as pinned:
            yield pinned

    def enclosing_root(self, path: Path) -> Path | None:
        """Return the writable path that `path` lies below, whatever its own rule says."""
        rule = _deepest(self.rules, path.parent) if path != _TOP else None
        return rule.path if rule is not None and rule.access == "write" else None

    def _looks_protected(self, path: Path, root: Path) -> bool:
        """Return whether some file systems or tools read this name as a protected one."""
        if not self.confined or path == root:
            return False
        first = path.relative_to(root).parts[0]
        return first.casefold().rstrip(". ") in (*PROTECTED_NAMES, PROJECT_DIRECTORY)


def resolve_boundary(
    policy: SandboxPolicy, workspace: Path, *, home: Path, environ: Mapping[str, str]
) -> Boundary:
    """Return the boundary of `policy` for a thread that works in `workspace`.

    `workspace` is the thread's directory, never one that a model chose for a command.
    `home` is Treadle's. Raises `ConfigError` for a root that is not an absolute path, or that
    belongs to the kernel.
    """
    if policy.mode == "danger-full-access":
        return Boundary(rules=(PathRule.of(_TOP, "write"),), confined=False, network=True)
    accesses: dict[Path, Access] = {_TOP: "read"}
    accesses |= {_real(each): "hidden" for each in SOCKET_DIRECTORIES if Path(each).exists()}
    roots = _roots(policy, workspace, environ)
    accesses |= dict.fromkeys((*roots.shared, *roots.own), "write")
    accesses |= dict.fromkeys(_hidden_paths(policy, roots, environ), "hidden")
    accesses = _hide(_real(home), accesses)
    return Boundary(
        rules=_rules(accesses | _protections(roots, _rules(accesses))),
        network=policy.network,
        hosts=() if policy.network else policy.hosts,
        local_sockets=policy.local_sockets,
        limits=policy.limits,
    )


def find_writable_roots(
    policy: SandboxPolicy, workspace: Path, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return the directories that commands could write in the mode `workspace-write`."""
    roots = _roots(replace(policy, mode="workspace-write"), workspace, environ)
    return (*roots.shared, *roots.own)


class _Roots(Struct, frozen=True):
    """The directories that a policy opens for writing."""

    shared: tuple[Path, ...] = ()
    """Temporary directories, in which other programs work too."""
    own: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    """Those of `own` that the user named."""


def _roots(policy: SandboxPolicy, workspace: Path, environ: Mapping[str, str]) -> _Roots:
    if policy.mode != "workspace-write":
        return _Roots()
    named = tuple(_real(_expand_user(root, environ)) for root in policy.writable_roots)
    for root in (_real(workspace), *named):
        if any(root.is_relative_to(each) for each in _KERNELS_OWN):
            raise ConfigError(
                f"{str(root)!r} cannot be writable: what is written there changes the machine; "
                "leave it out, or work in another directory"
            )
    shared = tuple(root for root in map(_real, _temporary(policy, environ)) if root.exists())
    own = tuple(root for root in (_real(workspace), *named) if root.exists())
    return _Roots(shared, own, named)


def _hidden_paths(
    policy: SandboxPolicy, roots: _Roots, environ: Mapping[str, str]
) -> Iterator[Path]:
    """Yield what is hidden; of the user's home, what exists or could be made in a writable root.

    The list is long and looked at for each command, and most homes have little of it.
    """
    makeable = tuple(map(_below, (*roots.shared, *roots.own)))
    user_home = os.path.realpath(environ.get("HOME") or _NOWHERE)
    for name, place in _expand_all(policy.hidden, user_home):
        if os.path.lexists(name):
            yield _real(name)
        elif name.startswith(makeable) or not name.startswith(f"{user_home}/"):
            yield place


@lru_cache(maxsize=8)
def _expand_all(names: tuple[str, ...], user_home: str) -> tuple[tuple[str, Path], ...]:
    places = (_expand_user(name, {"HOME": user_home}) for name in names)
    return tuple((str(place), place) for place in places)


def _temporary(policy: SandboxPolicy, environ: Mapping[str, str]) -> Iterator[Path]:
    named = environ.get("TMPDIR", "")
    if not policy.exclude_tmpdir_env_var and Path(named).is_absolute() and _real(named) != _TOP:
        yield Path(named)
    if not policy.exclude_slash_tmp:
        yield Path("/tmp")  # noqa: S108 - shared on purpose


def _protections(roots: _Roots, rules: Sequence[PathRule]) -> dict[Path, Access]:
    """Return what stays read-only within the paths that `rules` make writable.

    Commands can write the files that name these paths, so a protection never opens
    anything: what `rules` hide stays hidden.
    """
    # Others work in temporary directories too, so no name is reserved there in advance.
    in_shared = [
        path for root in roots.shared for path in _protected_paths(root) if os.path.lexists(path)
    ]
    in_own = [path for root in roots.own for path in _protected_paths(root)]
    return {
        path: "read"
        for path in (*in_shared, *in_own)
        # A root that the user named wins over the protection of the same path.
        if path not in roots.named and _deepest(rules, path).access == "write"
    }


def _protected_paths(root: Path) -> Iterator[Path]:
    """Yield what stays read-only in `root`; a link is protected together with its target."""
    if not root.is_dir():
        return
    names = (root / name for name in PROTECTED_NAMES)
    # The project's directory of the former name is protected, but its name is not reserved.
    former = (path for path in (root / PROJECT_DIRECTORY,) if os.path.lexists(path))
    for path in (*names, *former):
        yield path
        if path.is_symlink():
            yield _real(path)
    yield from map(_real, _git_directories(root / ".git"))


def _git_directories(git: Path) -> tuple[Path, ...]:
    """Return the directories outside `git` that it names, for worktrees and submodules.

    These are the target of a `gitdir:` file and the directory that this target shares. Reads
    files only, runs no git; a file that cannot be read names nothing.
    """
    if not git.is_file() or (named := _first_line(git)) is None or not named.startswith("gitdir:"):
        return ()
    target = git.parent / named.removeprefix("gitdir:").strip()
    common = _first_line(target / "commondir")
    return (target,) if common is None else (target, target / common)


def _first_line(file: Path) -> str | None:
    """Return the first line of a small file, if it can be part of a path."""
    try:
        # A command may have put a pipe in place of git's file; do not wait for it.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, _LONGEST_GIT_FILE).decode().partition("\n")[0].strip()
        finally:
            os.close(descriptor)
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in line else line


def _hide(home: Path, accesses: Mapping[Path, Access]) -> dict[Path, Access]:
    """Return `accesses` with all of `home` hidden but the user's skills, which stay read-only.

    No rule opens another part of it again.
    """
    below = _below(home)
    others = {
        path: access for path, access in accesses.items() if not _below(path).startswith(below)
    }
    skills = home / _SKILLS
    opened: dict[Path, Access] = {skills: "read"} if _is_plain_directory(skills) else {}
    return {**others, home: "hidden", **opened}


def _is_plain_directory(path: Path) -> bool:
    """Return whether `path` is a directory, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _deepest(rules: Sequence[PathRule], path: Path) -> PathRule:
    place = _below(path)
    return next(rule for rule in reversed(rules) if place.startswith(rule.place))


def _below(path: Path) -> str:
    """Return how everything below `path` begins: paths are slow to compare, and it is often done.

    Two slashes at the beginning mean the same as one.
    """
    name = str(path).strip("/")
    return f"/{name}/" if name else "/"


def _rules(accesses: Mapping[Path, Access]) -> tuple[PathRule, ...]:
    """Return the rules in order: parents before children."""
    paths = sorted(accesses, key=lambda path: (len(path.parts), path.parts))
    return tuple(PathRule.of(path, accesses[path]) for path in paths)


def _expand_user(name: str, environ: Mapping[str, str]) -> Path:
    user_home = environ.get("HOME", "")
    if name == "~" or name.startswith("~/"):
        if not user_home:
            return _NOWHERE / name.removeprefix("~").lstrip("/")
        return Path(user_home + name.removeprefix("~"))
    if not Path(name).is_absolute():
        raise ConfigError(f"{name!r} is not an absolute path; start it with '/' or '~/'")
    return Path(name)


def _real(path: Path | str) -> Path:
    """Return `path` without links and dots; what does not exist keeps its name."""
    return Path(os.path.realpath(path))


def _entry(path: Path) -> Path:
    """Return `path` with every link resolved but the last."""
    return _real(path) if path.name in ("", "..") else _real(path.parent) / path.name
