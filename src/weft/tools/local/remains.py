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
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MARK", "clear"]

MARK = "WEFT_PROCESS"
"""The variable that names the command a process belongs to."""

_log = logging.getLogger(__name__)
_PROCESSES = Path("/proc")
_PAUSE = 0.005
_ROUNDS = 400


async def clear(mark: str) -> None:
    """Kill whatever carries `mark` and wait until it is gone."""
    for _ in range(_ROUNDS):
        if not await asyncio.to_thread(_kill_marked, f"{MARK}={mark}".encode()):
            return
        await asyncio.sleep(_PAUSE)
    _log.warning("processes of command %r do not end; look for them with `ps`", mark)


def _kill_marked(mark: bytes) -> int:
    return sum(_kill_if_marked(pid, mark) for pid in _pids())


def _pids() -> Iterator[int]:
    for entry in os.scandir(_PROCESSES):
        if entry.name.isdigit():
            yield int(entry.name)


def _kill_if_marked(pid: int, mark: bytes) -> bool:
    if not _carries(pid, mark):
        return False
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _carries(pid, mark):
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(held)


def _carries(pid: int, mark: bytes) -> bool:
    try:
        environment = (_PROCESSES / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return mark in environment.split(b"\0")
