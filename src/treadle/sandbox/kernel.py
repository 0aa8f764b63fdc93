"""The kernel: what it lets a sandbox do here, and what stands in the way.

Owns reading the few files that say so. Invariant: nothing is written, and a file that is not
there says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

__all__ = ["Kernel", "NamespaceObstacle"]

_OWN_PID_MAX = (6, 14)
"""The first version in which `pid_max` belongs to a namespace; before, it is the machine's."""
_SETTINGS = Path("proc/sys")
_CONTAINER_SIGNS = (".dockerenv", "run/.containerenv")
_FORBIDDEN = r"(?i)permitted|permission|denied"
"""What a program says that was kept from doing something."""
_FILTERED = "2"
"""The value of `Seccomp:` in a process whose system calls are filtered."""


class NamespaceObstacle(Struct, frozen=True):
    """Why namespaces cannot be made, and what to do about it."""

    cause: str
    remedy: str


class Kernel(Struct, frozen=True, kw_only=True):
    """The kernel of this machine, as its files describe it."""

    release: str = field(default_factory=lambda: os.uname().release)
    files: Path = Path("/")
    """Where its files are."""

    @property
    def has_own_pid_max(self) -> bool:
        """Return whether a namespace has a `pid_max` of its own."""
        numbers = re.match(r"(\d+)\.(\d+)", self.release)
        return numbers is not None and (int(numbers[1]), int(numbers[2])) >= _OWN_PID_MAX

    @property
    def pid_cgroups(self) -> tuple[Path, ...]:
        """Return where groups that count processes can be made, if anywhere."""
        top = self.files / "sys/fs/cgroup"
        unified = (top,) if "pids" in _text(top / "cgroup.subtree_control").split() else ()
        return tuple(each for each in (*unified, top / "pids") if each.is_dir())

    def find_obstacle(self, binary: str, complaint: str, *, root: bool) -> NamespaceObstacle | None:
        """Return what keeps `binary` from making namespaces; None when nothing known does."""
        return next(self._obstacles(binary, complaint, root=root), None)

    def _obstacles(self, binary: str, complaint: str, *, root: bool) -> Iterator[NamespaceObstacle]:
        if not (self.files / "proc/self/ns/user").exists():
            yield NamespaceObstacle(
                "this kernel has no user namespaces", "use a kernel with CONFIG_USER_NS=y"
            )
        if self._setting("user/max_user_namespaces") == "0":
            yield NamespaceObstacle(
                "user.max_user_namespaces is 0, so nobody may make a user namespace",
                _sysctl("user.max_user_namespaces=15000"),
            )
        if not root and self._setting("kernel/unprivileged_userns_clone") == "0":
            yield NamespaceObstacle(
                "kernel.unprivileged_userns_clone is 0, so only root may make a user namespace",
                _sysctl("kernel.unprivileged_userns_clone=1"),
            )
        if not root and self._setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
            yield NamespaceObstacle(
                "AppArmor forbids user namespaces to programs without a profile "
                "(kernel.apparmor_restrict_unprivileged_userns is 1)",
                _profile(binary),
            )
        if self._is_container and re.search(_FORBIDDEN, complaint):
            yield NamespaceObstacle(
                "this container forbids namespaces",
                "start it with `--security-opt seccomp=unconfined --security-opt "
                "apparmor=unconfined` (Docker, Podman), or with `seccompProfile: {type: "
                "Unconfined}` and `appArmorProfile: {type: Unconfined}` in its security context "
                "(Kubernetes)",
            )

    @property
    def _is_container(self) -> bool:
        """Return whether this is a container, or something else that filters system calls."""
        status = _text(self.files / "proc/self/status")
        seccomp = re.search(r"(?m)^Seccomp:\s*(\d+)", status)
        return any((self.files / sign).exists() for sign in _CONTAINER_SIGNS) or (
            seccomp is not None and seccomp[1] == _FILTERED
        )

    def _setting(self, name: str) -> str:
        return _text(self.files / _SETTINGS / name).strip()


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _sysctl(setting: str) -> str:
    keep = f"echo {setting} | sudo tee /etc/sysctl.d/60-treadle.conf"
    return f"run `{keep} && sudo sysctl --system`"


def _profile(binary: str) -> str:
    """Return the commands that give `binary`, and nothing else, its namespaces back."""
    profile = (
        r"abi <abi/4.0>,\ninclude <tunables/global>\n"
        rf'profile treadle-bwrap "{binary}" flags=(unconfined) {{\n  userns,\n}}\n'
    )
    file = "/etc/apparmor.d/treadle-bwrap"
    return f"run `printf '{profile}' | sudo tee {file} && sudo apparmor_parser -r {file}`"
