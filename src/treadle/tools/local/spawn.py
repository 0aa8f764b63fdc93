"""Spawning: from a launch to a process with a session of its own.

Owns the descriptors a process starts with. Invariant: a process inherits its three
standard descriptors and what its launch names, and nothing else of ours. No Python
runs between fork and exec, so hosts with many threads are safe.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple, TypeAlias

from ...sandbox.launch import Launch

__all__ = ["Spawned", "spawn"]

_Action: TypeAlias = tuple[int, ...] | tuple[int, int, str, int, int]
_ENTER_AND_RUN = 'cd -- "$0" && exec "$@"'
_ROWS, _COLUMNS = 24, 80
_DEFAULT_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGXFSZ,
)


class Spawned(NamedTuple):
    """A process that has just started; whoever holds this closes both descriptors."""

    pid: int
    watch: int
    """Becomes readable when the process ends."""
    stream: int
    """What it writes; with a terminal also what it reads."""


def spawn(launch: Launch, *, tty: bool = False, confined: bool = True) -> Spawned:
    """Start `launch` with a terminal, or with empty input and one pipe for its output."""
    with ExitStack() as stack:
        ours, theirs = os.openpty() if tty else os.pipe()
        stack.callback(os.close, theirs)
        with ExitStack() as unless_spawned:
            unless_spawned.callback(os.close, ours)
            actions = _terminal(theirs, confined=confined) if tty else _pipe(theirs)
            pid = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", _ENTER_AND_RUN, str(launch.cwd), *launch.argv],
                launch.env,
                file_actions=[*actions, *_passed_on(launch.fds)],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
            watch = _watched(pid)
            unless_spawned.pop_all()
    return Spawned(pid, watch, ours)


def _passed_on(wanted: Sequence[int]) -> Iterator[_Action]:
    """Keeps what is `wanted` open, and closes what others in this process left inheritable."""
    for entry in os.scandir("/proc/self/fd"):
        descriptor = int(entry.name)
        if descriptor > 2 and descriptor not in wanted:
            yield (os.POSIX_SPAWN_CLOSE, descriptor)
    for descriptor in wanted:
        yield (os.POSIX_SPAWN_DUP2, descriptor, descriptor)


def _watched(pid: int) -> int:
    """A descriptor of the process; one that cannot be watched is not left running."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _pipe(output: int) -> list[_Action]:
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]


def _terminal(terminal: int, *, confined: bool) -> list[_Action]:
    """A session leader that opens a terminal owns it; a sandbox passes it on unowned."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    flags = os.O_RDWR | (os.O_NOCTTY if confined else 0)
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.ttyname(terminal), flags, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    ]
