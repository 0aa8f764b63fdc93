"""The place of a command: what its directory and its search path mean for approvals.

Owns which word is a shell, which program a bare name really means, and whether commands could
have put it there. Invariant: what a command could have written is never taken for a program of
the system, whatever it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from .boundary import Boundary, find_writable_roots, resolve_boundary
from .policy import SandboxPolicy
from .repository import Repository, find_repository

__all__ = ["SHELLS", "CommandPlace", "is_system_shell", "resolve_place"]

SHELLS = ("bash", "zsh", "sh")
"""The shells whose scripts are read, by name."""

_SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin")
_SYSTEM_SHELLS = frozenset(map("/".join, product(_SYSTEM, SHELLS)))


def is_system_shell(word: str) -> bool:
    """Return whether `word` names a shell of the system: alone, or in a directory of its own."""
    return word in SHELLS or word in _SYSTEM_SHELLS


class CommandPlace(Struct, frozen=True, kw_only=True):
    """Where a command runs: its directory, the search path, and what commands can write."""

    cwd: Path
    """As the command names it."""
    workspace: Path
    roots: tuple[Path, ...]
    """What commands can write, and the workspace whatever the mode: a repository brings files."""
    resolve: Callable[[], Boundary]
    """Resolves the boundary of the same roots, for the few who need it."""
    search: str = os.defpath

    @property
    def directory(self) -> Path:
        """Return the directory without links."""
        return Path(os.path.realpath(self.cwd))

    def is_shell(self, word: str, configured: str = "") -> bool:
        """Return whether `word` means a shell that no command could have put there.

        `configured` is the shell that the user chose; its exact path counts.
        """
        if PurePath(word).name not in SHELLS:
            return False
        if "/" not in word:
            return self._find(word) is not None
        if word == configured and word.startswith("/"):
            return True
        found = self._find(PurePath(word).name)
        known = word in _SYSTEM_SHELLS or word == found
        return known and not self._is_exposed(word)

    def shell_to_run(self, word: str) -> str:
        """Return what to execute for `word`: a full path where the search could be led astray."""
        if word not in SHELLS or self.is_fixed(word, always=True):
            return word
        found = self._find(word)
        return found or word

    def is_fixed(self, program: str, *, always: bool = False) -> bool:
        """Return whether the program that a bare name means is none that commands could write.

        With `always`, none that commands write later can take its place either.
        """
        for directory in self._directories():
            file = os.path.join(directory, program)  # noqa: PTH118 - many, for each command
            if always and self._is_exposed(file):
                return False
            if _is_program(file):
                return not self._is_exposed(file)
        return True

    def repository(self) -> Repository | None:
        """Return the repository that git would find here, if commands can have no part in it."""
        # A link on the way could be swapped; the workspace's own path is the user's.
        if self.cwd not in (self.directory, self.workspace):
            return None
        return find_repository(self.directory, self.resolve())

    def _find(self, name: str) -> str | None:
        """Return the first program `name` that no command could have put there."""
        files = (os.path.join(directory, name) for directory in self._directories())  # noqa: PTH118
        return next((f for f in files if _is_program(f) and not self._is_exposed(f)), None)

    def _directories(self) -> Iterator[str]:
        for name in self.search.split(os.pathsep):
            yield os.path.join(self.cwd, name)  # noqa: PTH118 - relative ones start here

    def _is_exposed(self, file: str) -> bool:
        """Return whether commands can write `file`, its target, or what stands in its place."""
        places = [file, os.path.realpath(os.path.dirname(file))]  # noqa: PTH120
        if os.path.islink(file):  # noqa: PTH114
            places.append(os.path.realpath(file))
        roots = [f"{root}/" for root in (*self.roots, self.workspace)]
        return any(f"{place}/".startswith(root) for place in places for root in roots)


def resolve_place(
    cwd: Path,
    policy: SandboxPolicy,
    workspace: Path,
    *,
    home: Path,
    environ: Mapping[str, str],
) -> CommandPlace:
    """Return the place of a command in `cwd`, for a thread that works in `workspace`."""
    open_policy = replace(policy, mode="workspace-write")
    return CommandPlace(
        cwd=cwd,
        workspace=workspace,
        roots=find_writable_roots(policy, workspace, environ),
        resolve=lambda: resolve_boundary(open_policy, workspace, home=home, environ=environ),
        search=environ.get("PATH", os.defpath),
    )


def _is_program(file: str) -> bool:
    return os.access(file, os.X_OK) and os.path.isfile(file)  # noqa: PTH113 - many
