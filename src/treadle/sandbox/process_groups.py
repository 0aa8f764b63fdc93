"""Process groups of the kernel (cgroups): they bound how many processes a command may have.

Owns making and removing one for each command, for root on kernels whose `pid_max` is the
whole machine's. Invariant: a group that could not be made or bounded is never used, and one
of a Treadle that is dead is removed by the next.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.errors import SandboxUnavailable

__all__ = ["find_group_parent", "open_group"]

_PREFIX = "treadle-"
_LAUNCHERS = 8
"""Processes of the launch itself, which count too."""
_numbers = itertools.count()
_leftover: set[Path] = set()
"""Groups whose last processes were not gone yet; the next command removes them."""


def find_group_parent(candidates: Iterable[Path]) -> Path | None:
    """Return the first of `candidates` in which groups can be made and bounded."""
    for parent in candidates:
        with suppress(OSError, SandboxUnavailable):
            _remove_stale(parent)
            with open_group(parent, 1):
                return parent
    return None


@contextmanager
def open_group(parent: Path, processes: int) -> Iterator[Path]:
    """Make a group for at most `processes`, beside those that launch them, until the block ends."""
    for each in tuple(_leftover):
        _remove(each)
    group = parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
    try:
        group.mkdir()
        (group / "pids.max").write_text(f"{processes + _LAUNCHERS}\n")
    except OSError as error:
        _remove(group)
        raise SandboxUnavailable(
            f"cannot bound the processes of a command with {str(group)!r}: {error.strerror}; "
            "make the directory writable"
        ) from error
    try:
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Remove a group, or leave it to the next command: nobody waits for the kernel here."""
    _leftover.discard(group)
    try:
        group.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        _leftover.add(group)


def _remove_stale(parent: Path) -> None:
    for group in parent.glob(f"{_PREFIX}*-*"):
        owner = group.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with suppress(OSError):
                group.rmdir()
