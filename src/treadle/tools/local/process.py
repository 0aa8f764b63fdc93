"""Processes of this machine: spawned, watched, and killed with all that they started.

Owns the descriptors a process starts with, and the mark that everything it starts inherits.
Invariants: a process inherits its three standard descriptors and what its launch names, and
nothing else of ours; once `wait` returns, nothing that it started is left; a signal only
reaches a process that is ours: one that is not reaped yet, or one that has our mark. No
Python runs between fork and exec, so hosts with threads are safe.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ...core.ids import uuid7
from ...core.marked_processes import kill_marked, kill_marked_once, start_time
from ...sandbox.launch import Launch
from .streams import Stream, wait_readable

if TYPE_CHECKING:
    from ...sandbox.network_proxy import Network

__all__ = ["MARK", "LocalProcess", "Spawned", "kill_orphans", "new_mark", "spawn"]

MARK = "TREADLE_PROCESS"
"""The variable that names the command a process belongs to, and who started it."""

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
    """A process that has just started; the holder closes both descriptors."""

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
            line = _line(launch)
            pid = os.posix_spawn(
                line[0],
                line,
                launch.env,
                file_actions=[*actions, *_inherit(launch.fds)],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
            watch = _watch(pid)
            unless_spawned.pop_all()
    return Spawned(pid, watch, ours)


def _line(launch: Launch) -> tuple[str, ...]:
    """Return what to spawn: a launch, entering its directory if it has one."""
    if launch.cwd is None:
        return launch.argv
    return ("/bin/sh", "-c", _ENTER_AND_RUN, str(launch.cwd), *launch.argv)


def _inherit(wanted: Sequence[int]) -> Iterator[_Action]:
    """Yield actions that keep `wanted` open and close whatever else is inheritable."""
    for entry in os.scandir("/proc/self/fd"):
        descriptor = int(entry.name)
        if descriptor > 2 and descriptor not in wanted:
            yield (os.POSIX_SPAWN_CLOSE, descriptor)
    for descriptor in wanted:
        yield (os.POSIX_SPAWN_DUP2, descriptor, descriptor)


def _watch(pid: int) -> int:
    """Open a descriptor of the process; kill one that cannot be watched."""
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
    """Return actions for a terminal: a session leader owns it, a sandbox passes it on unowned."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    flags = os.O_RDWR | (os.O_NOCTTY if confined else 0)
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.ttyname(terminal), flags, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    ]


class LocalProcess:
    """A process, its session and its output. Made by `LocalExecutor.start`."""

    def __init__(
        self,
        spawned: Spawned,
        launch: Launch,
        *,
        tty: bool,
        on_gone: Callable[[LocalProcess], None],
        hosts: Sequence[str] = (),
        network: Network | None = None,
    ) -> None:
        self._pid, self._watch = spawned.pid, spawned.watch
        self._stream = Stream(spawned.stream)
        self._launch, self._tty, self._on_gone = launch, tty, on_gone
        self._refusals: list[str] = []
        self._proxy = self._start_proxy(hosts, network)
        self._end = asyncio.create_task(self._wait_and_reap())

    async def output(self) -> AsyncIterator[bytes]:
        """Read what it writes, until it ends."""
        while data := await self._stream.read():
            yield data
        self._release()

    async def write(self, data: bytes) -> None:
        """Type into its terminal."""
        if not self._tty:
            raise BrokenPipeError(errno.EPIPE, "the process was started without a terminal")
        await self._stream.write(data)

    async def wait(self) -> int:
        """Wait for its exit code."""
        return await asyncio.shield(self._end)

    async def kill(self) -> None:
        """Kill it and all that it started."""
        if not self._end.done():
            self._kill_session()
            await asyncio.shield(self._end)
        self._release()

    async def take_refusals(self) -> tuple[str, ...]:
        """Take out what its network has refused since the last time."""
        taken, self._refusals = tuple(self._refusals), []
        return taken

    def _start_proxy(
        self, hosts: Sequence[str], network: Network | None
    ) -> asyncio.Task[None] | None:
        """Start what connects it with `hosts`, if that is its network."""
        if self._launch.handover is None:
            return None
        from ...sandbox.network_proxy import NetworkProxy, OpenNetwork

        proxy = NetworkProxy(hosts, network or OpenNetwork(), self._tell_refusal)
        return asyncio.create_task(proxy.serve(self._launch.handover))

    def _tell_refusal(self, text: str) -> None:
        self._refusals.append(text)
        self._stream.insert(f"\n[network refused: {text}]\n".encode())

    async def _wait_and_reap(self) -> int:
        try:
            await wait_readable(self._watch)
            self._kill_session()
            if not (self._launch.keeps_all and _ended_by_itself(self._pid)):
                await kill_marked(MARK, self._launch.env[MARK])
        finally:
            # Cancelled with the loop: it must end with us, whatever it is doing.
            self._kill_session()
            code = self._reap()
            if self._proxy is not None:
                self._proxy.cancel()
            self._launch.close()
            self._stream.end()
        return code

    def _release(self) -> None:
        """Release what is held: the output has been read or given up."""
        self._stream.close()
        self._on_gone(self)

    def _reap(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        os.close(self._watch)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _kill_session(self) -> None:
        """Kill what did not leave the process group; the rest carries our mark."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)


def _ended_by_itself(pid: int) -> bool:
    """Return whether a process that has ended was not killed; it stays to be reaped."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return ended is not None and ended.si_code == os.CLD_EXITED


def new_mark() -> str:
    """Return a mark that names this process, so that others can detect when it is gone."""
    return f"{_namespace()}-{os.getpid()}-{start_time(os.getpid())}-{uuid7().hex}"


def kill_orphans() -> None:
    """Kill what was started by a process like ours that ended without a chance to do so."""
    kill_marked_once(MARK, _is_orphaned)


def _is_orphaned(mark: str) -> bool:
    # The numbers of another namespace (a container's) mean nothing here.
    match mark.split("-"):
        case [namespace, owner, started, _] if namespace == _namespace() and owner.isdigit():
            return start_time(int(owner)) != started
        case _:
            return False


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)
