"""Processes of this machine, found and killed by a mark in their environment.

Owns how they are found: whatever a marked process starts inherits the mark, also in a session
of its own. Invariants: a signal only reaches a process whose mark was read while its descriptor
was held; a search that finds nothing has looked at every process there was, and at each that
they started meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

__all__ = ["kill_marked", "kill_marked_once", "read_marks", "start_time"]

_log = logging.getLogger(__name__)
_PAUSE = 0.005
_ROUNDS = 400
_CHUNK = 65_536
_START_TIME, _MEMORY, _CODE = 19, 20, 23
_ENVIRONMENT = slice(47, 49)
"""The places of these in `stat`, counted after the name."""


async def kill_marked(variable: str, mark: str) -> None:
    """Kill whatever has `mark` in its variable, and wait until it is gone."""
    for _ in range(_ROUNDS):
        if not await asyncio.to_thread(kill_marked_once, variable, mark.__eq__):
            return
        await asyncio.sleep(_PAUSE)
    _log.warning("processes marked %s=%s do not end; look for them with `ps`", variable, mark)


def kill_marked_once(variable: str, wanted: Callable[[str], bool]) -> bool:
    """Kill whatever has a wanted mark; return whether any was found, or may be in a moment."""
    found = False
    seen: set[int] = set()
    # One that ended before it was looked at may have started another one before.
    while new := _all_processes() - seen:
        for pid in new:
            found |= _kill_if(pid, variable, wanted)
        seen |= new
    return found


def read_marks(pid: int, variable: str) -> list[str] | None:
    """Return the marks of a process, None while it changes its program: they come back."""
    environment = _read(f"/proc/{pid}/environ")
    if environment is None:
        return []
    if not environment and _changes_program(pid):
        return None
    prefix = f"{variable}=".encode()
    if prefix not in environment:  # nearly every process, and all of them are looked at
        return []
    marks = [each for each in environment.split(b"\0") if each.startswith(prefix)]
    return [each.removeprefix(prefix).decode(errors="replace") for each in marks]


def start_time(pid: int) -> str | None:
    """Return when a process started, in a unit of the kernel's; None when there is none."""
    fields = _stat(pid)
    return fields[_START_TIME] if fields else None


def _all_processes() -> set[int]:
    try:
        with os.scandir("/proc") as entries:
            return {int(entry.name) for entry in entries if entry.name.isdigit()}
    except OSError:  # a system that has none
        return set()


def _kill_if(pid: int, variable: str, wanted: Callable[[str], bool]) -> bool:
    marks = read_marks(pid, variable)
    if marks is None:
        return True
    if not any(map(wanted, marks)):
        return False
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        marks = read_marks(pid, variable)
        if marks is None or not any(map(wanted, marks)):
            return marks is None
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(held)


def _changes_program(pid: int) -> bool:
    """Whether one without an environment is, or was a moment ago, within `exec`.

    One that has none at all has a place for it, which is empty; so it looks, too, while the
    kernel lays the environment out, but that is before it says where the code is. One without
    memory is a thread of the kernel's, or dead.
    """
    fields = _stat(pid)
    if not fields or fields[_MEMORY] == "0":
        return False
    start, end = fields[_ENVIRONMENT]
    return fields[_CODE] == "0" or start != end


def _stat(pid: int) -> list[str]:
    stat = _read(f"/proc/{pid}/stat")
    return stat.decode(errors="replace").rpartition(")")[2].split() if stat else []


def _read(path: str) -> bytes | None:
    """Read a file of the kernel's, in as few pieces as possible: they may be of two programs."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = piece = os.read(descriptor, _CHUNK)
        while len(piece) == _CHUNK:
            piece = os.read(descriptor, _CHUNK)
            data += piece
    except OSError:
        return None
    else:
        return data
    finally:
        os.close(descriptor)
