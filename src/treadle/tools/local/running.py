"""The commands of threads that run on this machine now, whichever process started them.

Owns how they are found: by the marks in their environment. Invariant: what is stopped carries
a mark that was found for the thread, so no other process is ever signalled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ...core.marked_processes import kill_marked
from .process import MARK

__all__ = ["RunningCommand", "find_running", "stop_running"]

_PROCESSES = Path("/proc")
_THREAD = "TREADLE_THREAD_ID"
_START_TIME = 19
_LAUNCHERS = frozenset({"bwrap", "treadle-seccomp"})
_LAUNCHES = 'cd -- "$0" && exec "$@"'


class RunningCommand(Struct, frozen=True, kw_only=True):
    """A command with all that it started."""

    pid: int
    """The process that was started first."""
    thread: str
    command: str
    seconds: float
    """How long it has run."""
    processes: int = 1
    mark: str


class _Found(Struct, frozen=True):
    pid: int
    started: float
    argv: tuple[str, ...]
    mark: str
    thread: str


def find_running(thread: str | None = None) -> list[RunningCommand]:
    """Return the commands of a thread, or of all threads, the oldest first. Blocks."""
    groups: dict[str, list[_Found]] = {}
    for found in _marked_processes():
        if thread is None or found.thread == thread:
            groups.setdefault(found.mark, []).append(found)
    now = _uptime()
    commands = []
    for mark, members in groups.items():
        members.sort(key=lambda each: (each.started, each.pid))
        shown = next((each for each in members if not _is_launcher(each.argv)), members[-1])
        commands.append(
            RunningCommand(
                pid=members[0].pid,
                thread=members[0].thread,
                command=_script(shown.argv),
                seconds=max(now - members[0].started, 0.0),
                processes=len(members),
                mark=mark,
            )
        )
    return sorted(commands, key=lambda each: -each.seconds)


async def stop_running(command: RunningCommand) -> None:
    """Kill a command and all that it started, and wait until they are gone."""
    await kill_marked(MARK, command.mark)


def _marked_processes() -> Iterator[_Found]:
    for entry in os.scandir(_PROCESSES):
        if entry.name.isdigit():
            # Others' processes, and those that end meanwhile, are none of ours.
            with suppress(OSError, ValueError, IndexError):
                yield from _read(Path(entry.path))


def _read(place: Path) -> Iterator[_Found]:
    pairs = (place / "environ").read_bytes().decode(errors="replace").split("\0")
    environ = dict(pair.partition("=")[::2] for pair in pairs)
    if not environ.get(MARK) or not environ.get(_THREAD):
        return
    fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
    if fields[0] == "Z":
        return
    argv = (place / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    started = int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    yield _Found(int(place.name), started, tuple(argv), environ[MARK], environ[_THREAD])


def _is_launcher(argv: tuple[str, ...]) -> bool:
    return Path(argv[0]).name in _LAUNCHERS or _LAUNCHES in argv[:3]


def _script(argv: tuple[str, ...]) -> str:
    """Return a command as people wrote it: the script of a shell, or the words."""
    if argv[1:2] == ("-c",) and argv[3:4] == ("sh",):
        argv = argv[4:]  # what the sandbox limits before it runs it
    if len(argv) == 3 and argv[1] in ("-c", "-lc"):
        return argv[2]
    return " ".join(argv)


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
