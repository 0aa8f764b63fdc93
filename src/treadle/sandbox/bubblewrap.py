"""Bubblewrap: commands in namespaces of their own.

Owns the command line of `bwrap`. Invariant: a command sees the whole file system
read-only but for its writable roots, no process but its own, no network unless
it was given, and holds no privilege it could get more with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .boundary import Boundary
from .launch import Launch
from .lifeline import Lifeline, lifeline, moved_up
from .mounts import mount_arguments
from .placeholders import held
from .policy import Limits
from .seccomp import socket_filter

__all__ = ["Bubblewrap"]

_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    "--unshare-cgroup-try",
)
_RESERVED_PIDS = 300
"""Numbers the kernel does not give out a second time; they come on top of the limit."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A `bwrap` that was tried on this machine; `find_bubblewrap` makes one."""

    binary: Path
    home: Path
    """Treadle's home: it holds the lock that placeholders are kept by."""
    prlimit: Path
    setsid: Path
    bounding: tuple[Path, Path] | None = None
    """`setpriv` and `unshare`: they bound root's processes, whom the usual limit does not bind."""
    nested: bool = False
    """Whether commands can still make user namespaces: `bwrap` was too old to stop it."""
    proc: bool = True
    """Whether commands have a `/proc`; some containers forbid making one."""
    root: bool = False

    @property
    def bounds_processes(self) -> bool:
        """Whether the number of processes is really limited for this user."""
        return not self.root or self.bounding is not None

    def command(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        boundary: Boundary,
        tty: bool = False,
    ) -> Launch:
        """How to start `argv` confined to `boundary`."""
        if not boundary.confined:
            raise ValueError("this boundary asks for no sandbox; launch it with NoSandbox")
        with ExitStack() as stack:
            stack.enter_context(held(boundary, self.home / "sandbox.lock"))
            tie = stack.enter_context(lifeline())
            seccomp = _filter_descriptor(boundary)
            stack.callback(os.close, seccomp)
            line = (
                *self._entered(boundary.limits, tie),
                *(str(self.binary), "--die-with-parent", "--as-pid-1", "--new-session"),
                *self._confinement(boundary),
                *("--seccomp", str(seccomp)),
                *tie.hide,
                *mount_arguments(boundary, proc=self.proc),
                *("--chdir", str(cwd), "--"),
                *tie.knock,
                *((str(self.setsid), "--ctty", "--wait") if tty else ()),
                *self._limited(boundary.limits),
                *argv,
            )
            fds = (seccomp, tie.descriptor)
            return Launch(line, dict(env), Path("/"), fds, stack.pop_all())

    def _confinement(self, boundary: Boundary) -> tuple[str, ...]:
        return (
            *_NAMESPACES,
            *(() if boundary.network else ("--unshare-net",)),
            *(() if self.nested else ("--disable-userns",)),
            *("--cap-drop", "ALL"),
        )

    def _entered(self, limits: Limits, tie: Lifeline) -> tuple[str, ...]:
        """What comes first; for root, a namespace that runs out of numbers and ends with us."""
        if self.bounding is None:
            return _shell(tie.take)
        setpriv, unshare = map(str, self.bounding)
        most = limits.processes + _RESERVED_PIDS
        return (
            *(setpriv, "--pdeathsig", "KILL", "--"),
            *(unshare, "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
            *_shell(f"echo {most} >/proc/sys/kernel/pid_max", tie.take),
        )

    def _limited(self, limits: Limits) -> tuple[str, ...]:
        sizes = {"as": limits.memory_bytes, "fsize": limits.file_bytes}
        return (
            *(str(self.prlimit), "--core=0", f"--nproc={limits.processes}"),
            *(f"--{name}={size}" for name, size in sizes.items() if size is not None),
            "--",
        )


def _shell(*steps: str) -> tuple[str, ...]:
    """Goes before a command that is to run after `steps`."""
    return ("/bin/sh", "-c", " && ".join((*steps, 'exec "$@"')), "sh")


def _filter_descriptor(boundary: Boundary) -> int:
    program = socket_filter(network=boundary.network, local_sockets=boundary.local_sockets)
    descriptor = os.memfd_create("treadle-seccomp")
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return moved_up(descriptor)
