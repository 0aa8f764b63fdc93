"""Remains: processes that a command left behind.

Owns the mark that every process of a command inherits, and the search for it.
Invariant: a signal only reaches a process whose mark was read while its
descriptor was held, never a stranger that got its number.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from ...core.ids import uuid7

__all__ = ["MARK", "clear", "clear_orphans", "new_mark"]

MARK = "TREADLE_PROCESS"
"""The variable that names the command a process belongs to, and who started it."""

_log = logging.getLogger(__name__)
_PROCESSES = Path("/proc")
_PREFIX = f"{MARK}=".encode()
_PAUSE = 0.005
_ROUNDS = 400
_STARTED = 19
"""Where the start time stands in `stat`, counted after the name."""


def new_mark() -> str:
    """A mark that names this process, so that others can tell when it is gone."""
    return f"{_namespace()}-{os.getpid()}-{_started(os.getpid())}-{uuid7().hex}"


async def clear(mark: str) -> None:
    """Kill whatever carries `mark` and wait until it is gone."""
    for _ in range(_ROUNDS):
        if not await asyncio.to_thread(_kill_all, mark.__eq__):
            return
        await asyncio.sleep(_PAUSE)
    _log.warning("processes of command %r do not end; look for them with `ps`", mark)


def clear_orphans() -> None:
    """Kill what was started by a process like ours that ended without a chance to do so."""
    _kill_all(_is_orphaned)


def _is_orphaned(mark: str) -> bool:
    # The numbers of another namespace (a container's) mean nothing here.
    match mark.split("-"):
        case [namespace, owner, started, _] if namespace == _namespace() and owner.isdigit():
            return _started(int(owner)) != started
        case _:
            return False


def _namespace() -> str:
    return str((_PROCESSES / "self" / "ns" / "pid").stat().st_ino)


def _started(pid: int) -> str | None:
    try:
        stat = (_PROCESSES / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[_STARTED]


def _kill_all(wanted: Callable[[str], bool]) -> int:
    return sum(_kill_if(pid, wanted) for pid in _pids())


def _pids() -> Iterator[int]:
    for entry in os.scandir(_PROCESSES):
        if entry.name.isdigit():
            yield int(entry.name)


def _kill_if(pid: int, wanted: Callable[[str], bool]) -> bool:
    if not _carries(pid, wanted):
        return False
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _carries(pid, wanted):
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(held)


def _carries(pid: int, wanted: Callable[[str], bool]) -> bool:
    try:
        environment = (_PROCESSES / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    marks = [each for each in environment.split(b"\0") if each.startswith(_PREFIX)]
    return any(wanted(each.removeprefix(_PREFIX).decode(errors="replace")) for each in marks)
