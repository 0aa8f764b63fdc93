"""Boundaries: what a policy comes to on this disk.

Owns the list of path rules and the question "may this be written?". Invariant:
the deepest rule decides, for writes inside this process and for the mounts of a
sandboxed command alike, so both draw the same line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from ..core.errors import ConfigError
from ..core.former_name import PROJECT_DIRECTORY
from .gitdir import git_directories
from .pinned import PinnedPath, pinned
from .policy import PROTECTED_NAMES, SOCKET_DIRECTORIES, Limits, SandboxPolicy

__all__ = ["Access", "Boundary", "Rule", "draw"]

Access: TypeAlias = Literal["write", "read", "hidden"]

_TOP = Path("/")


class Rule(Struct, frozen=True):
    """What may be done with a path and everything below it, up to deeper rules."""

    path: Path
    access: Access


class Boundary(Struct, frozen=True, kw_only=True):
    """What commands may touch. Drawn anew for each command, because disks change."""

    rules: tuple[Rule, ...]
    """Parents before children; at most one rule for a path."""
    confined: bool = True
    """False when the user asked for no sandbox at all."""
    network: bool = False
    local_sockets: bool = False
    limits: Limits = Limits()

    @property
    def writable_roots(self) -> tuple[str, ...]:
        """The directories that may be written, as a model is told of them."""
        return tuple(str(rule.path) for rule in self.rules if rule.access == "write")

    def access(self, path: Path) -> Access:
        """What may be done at `path`, which must be absolute and free of links."""
        rule = _deepest(self.rules, path)
        if rule.access == "write" and self._looks_protected(path, rule.path):
            return "read"
        return rule.access

    def writable(self, path: Path) -> bool:
        """Whether this process may create, change or remove `path`.

        Both the entry itself and what it leads to must be writable, so neither a link
        out of a root nor the link `.git` can be used to get around a rule.
        """
        entry = _entry(path)
        return self.access(entry) == self.access(_real(entry)) == "write"

    def readable(self, path: Path) -> bool:
        """Whether a command may read `path`."""
        return self.access(_real(path)) != "hidden"

    @contextmanager
    def pin(self, path: Path) -> Iterator[PinnedPath]:
        """Hold the directory of a writable `path` open while it is changed.

        A link that is swapped in after the check makes this fail instead of being
        followed. Raises `PermissionError` where `path` may not be written.
        """
        entry = _real(path) if path.is_symlink() else _entry(path)
        if not (self.writable(path) and self.writable(entry)):
            raise PermissionError(f"{str(path)!r} is outside the writable roots")
        with pinned(entry) as held:
            yield held

    def enclosing_root(self, path: Path) -> Path | None:
        """The writable path that `path` lies below, whatever its own rule says."""
        rule = _deepest(self.rules, path.parent) if path != _TOP else None
        return rule.path if rule is not None and rule.access == "write" else None

    def _looks_protected(self, path: Path, root: Path) -> bool:
        """Names that some file systems and tools take for a protected one."""
        if not self.confined or path == root:
            return False
        first = path.relative_to(root).parts[0]
        return first.casefold().rstrip(". ") in (*PROTECTED_NAMES, PROJECT_DIRECTORY)


def draw(
    policy: SandboxPolicy, workspace: Path, *, home: Path, environ: Mapping[str, str]
) -> Boundary:
    """The boundary of `policy` for a thread that works in `workspace`.

    `workspace` is the thread's directory, never one that a model chose for a command.
    `home` is Treadle's. Raises `ConfigError` for a root that is no absolute path.
    """
    if policy.mode == "danger-full-access":
        return Boundary(rules=(Rule(_TOP, "write"),), confined=False, network=True)
    accesses: dict[Path, Access] = {_TOP: "read"}
    accesses |= {_real(each): "hidden" for each in SOCKET_DIRECTORIES if Path(each).exists()}
    roots = _roots(policy, workspace, environ)
    accesses |= dict.fromkeys((*roots.shared, *roots.own), "write")
    for name in policy.hidden:
        accesses[_real(_expanded(name, environ))] = "hidden"
    accesses = _without(_real(home), accesses)
    return Boundary(
        rules=_ordered(accesses | _protections(roots, _ordered(accesses))),
        network=policy.network,
        local_sockets=policy.local_sockets,
        limits=policy.limits,
    )


class _Roots(Struct, frozen=True):
    """The directories that a policy opens for writing."""

    shared: tuple[Path, ...] = ()
    """Temporary ones, in which others work too."""
    own: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    """Those of `own` that the user spelled out."""


def _roots(policy: SandboxPolicy, workspace: Path, environ: Mapping[str, str]) -> _Roots:
    if policy.mode != "workspace-write":
        return _Roots()
    named = tuple(_real(_expanded(root, environ)) for root in policy.writable_roots)
    shared = tuple(root for root in map(_real, _temporary(policy, environ)) if root.exists())
    own = tuple(root for root in (_real(workspace), *named) if root.exists())
    return _Roots(shared, own, named)


def _protections(roots: _Roots, rules: Sequence[Rule]) -> dict[Path, Access]:
    """What stays read-only of what `rules` let commands write.

    Commands can write the files that name these paths, so none of them may open
    anything: what `rules` hide stays hidden.
    """
    # Others work in temporary directories too, so no name is kept free there in advance.
    taken = [path for root in roots.shared for path in _protected(root) if os.path.lexists(path)]
    kept = [path for root in roots.own for path in _protected(root)]
    return {
        path: "read"
        for path in (*taken, *kept)
        # A root that the user spelled out wins over the protection of the same path.
        if path not in roots.named and _deepest(rules, path).access == "write"
    }


def _temporary(policy: SandboxPolicy, environ: Mapping[str, str]) -> Iterator[Path]:
    named = environ.get("TMPDIR", "")
    if not policy.exclude_tmpdir_env_var and Path(named).is_absolute() and _real(named) != _TOP:
        yield Path(named)
    if not policy.exclude_slash_tmp:
        yield Path("/tmp")  # noqa: S108 - shared on purpose


def _protected(root: Path) -> Iterator[Path]:
    """What stays read-only in `root`; a link is protected together with its target."""
    if not root.is_dir():
        return
    names = (root / name for name in PROTECTED_NAMES)
    # The project's directory of the former name is kept, and never kept free.
    former = (path for path in (root / PROJECT_DIRECTORY,) if os.path.lexists(path))
    for path in (*names, *former):
        yield path
        if path.is_symlink():
            yield _real(path)
    yield from map(_real, git_directories(root / ".git"))


def _without(home: Path, accesses: Mapping[Path, Access]) -> dict[Path, Access]:
    """`accesses` with all of `home` hidden; no rule opens a part of it again."""
    kept = {path: access for path, access in accesses.items() if not path.is_relative_to(home)}
    return {**kept, home: "hidden"}


def _deepest(rules: Sequence[Rule], path: Path) -> Rule:
    lineage = {path, *path.parents}
    return next(rule for rule in reversed(rules) if rule.path in lineage)


def _ordered(accesses: Mapping[Path, Access]) -> tuple[Rule, ...]:
    paths = sorted(accesses, key=lambda path: (len(path.parts), path))
    return tuple(Rule(path, accesses[path]) for path in paths)


def _expanded(name: str, environ: Mapping[str, str]) -> Path:
    user_home = environ.get("HOME", "")
    if name == "~" or name.startswith("~/"):
        if not user_home:
            return Path("/nonexistent") / name.removeprefix("~").lstrip("/")
        return Path(user_home + name.removeprefix("~"))
    if not Path(name).is_absolute():
        raise ConfigError(f"{name!r} is no absolute path; start it with '/' or '~/'")
    return Path(name)


def _real(path: Path | str) -> Path:
    """`path` without links and dots; what does not exist keeps its name."""
    return Path(os.path.realpath(path))


def _entry(path: Path) -> Path:
    """`path` with every link resolved but the last."""
    return _real(path) if path.name in ("", "..") else _real(path.parent) / path.name
