"""Leftovers: what the attempts of one user have left on the machine.

Owns what was there before. Invariant: what is found is told, and then ended or removed.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attack.processes import descendants

__all__ = ["CHECKS", "Before"]

CHECKS = ("processes", "files", "process groups of the kernel", "settings of the kernel")
_GRACE = 10.0
"""Seconds that what is ending has to end."""
_SETTINGS = (
    *("kernel/core_pattern", "kernel/pid_max", "kernel/panic", "kernel/modprobe"),
    *("kernel/randomize_va_space", "kernel/hostname", "kernel/threads-max"),
    *("vm/overcommit_memory", "vm/drop_caches", "fs/suid_dumpable", "fs/protected_symlinks"),
    *("user/max_user_namespaces", "net/ipv4/ip_forward"),
)
_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Before:
    """The machine before the first attempt."""

    settings: dict[str, str]
    groups: frozenset[Path]

    @classmethod
    def look(cls) -> Before:
        """Look at the machine."""
        return cls(_settings(), _groups())

    def compare(self, top: Path) -> dict[str, str]:
        """Return what was left, under the names of the checks; clean up."""
        found = (
            _end_processes(),
            _files(top),
            _tell("groups", sorted(map(str, _groups() - self.groups))),
            _tell("changed", _changes(self.settings, _settings())),
        )
        return dict(zip(CHECKS, found, strict=True))


def _settings() -> dict[str, str]:
    found = {}
    for name in _SETTINGS:
        with suppress(OSError):
            found[name] = Path("/proc/sys", name).read_text()
    return found


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [
        f"{name}: {before[name]!r} -> {after.get(name)!r}"
        for name in before
        if before[name] != after.get(name)
    ]


def _groups() -> frozenset[Path]:
    """Return the groups of processes that Treadle made for commands, and that nobody owns."""
    found = (each for top in (_GROUPS, _GROUPS / "pids") for each in top.glob("treadle-*-*"))
    return frozenset(each for each in found if not Path("/proc", each.name.split("-")[1]).exists())


def _end_processes() -> str:
    deadline = time.monotonic() + _GRACE
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return _tell("still run", [f"{pid} {line}" for pid, line in left.items()])


def _files(top: Path) -> str:
    return _tell("files", sorted(each.name for each in top.iterdir()))


def _tell(what: str, found: list[str]) -> str:
    return f"{what}: {found}" if found else ""
