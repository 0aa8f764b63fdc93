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
from .mounts import mount_arguments
from .placeholders import held
from .policy import Limits
from .seccomp import socket_filter

__all__ = ["Bubblewrap"]

_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    "--unshare-cgroup-try",
)
_BOUND_AND_RUN = 'echo "$0" >/proc/sys/kernel/pid_max && exec "$@"'
_RESERVED_PIDS = 300
"""Numbers the kernel does not give out a second time; they come on top of the limit."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A `bwrap` that was tried on this machine; `find_bubblewrap` makes one."""

    binary: Path
    home: Path
    """Weft's home: it holds the lock that placeholders are kept by."""
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
            seccomp = _filter_descriptor(boundary)
            stack.callback(os.close, seccomp)
            line = (
                *self._bounded(boundary.limits),
                *(str(self.binary), "--die-with-parent", "--new-session"),
                *self._confinement(boundary),
                *("--seccomp", str(seccomp)),
                *mount_arguments(boundary, proc=self.proc),
                *("--chdir", str(cwd), "--"),
                *((str(self.setsid), "--ctty", "--wait") if tty else ()),
                *self._limited(boundary.limits),
                *argv,
            )
            return Launch(line, dict(env), Path("/"), (seccomp,), stack.pop_all())

    def _confinement(self, boundary: Boundary) -> tuple[str, ...]:
        return (
            *_NAMESPACES,
            *(() if boundary.network else ("--unshare-net",)),
            *(() if self.nested else ("--disable-userns",)),
            *("--cap-drop", "ALL"),
        )

    def _bounded(self, limits: Limits) -> tuple[str, ...]:
        """For root: a namespace that runs out of process numbers, and ends with our process."""
        if self.bounding is None:
            return ()
        setpriv, unshare = map(str, self.bounding)
        most = str(limits.processes + _RESERVED_PIDS)
        return (
            *(setpriv, "--pdeathsig", "KILL", "--"),
            *(unshare, "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
            *("/bin/sh", "-c", _BOUND_AND_RUN, most),
        )

    def _limited(self, limits: Limits) -> tuple[str, ...]:
        sizes = {"as": limits.memory_bytes, "fsize": limits.file_bytes}
        return (
            *(str(self.prlimit), "--core=0", f"--nproc={limits.processes}"),
            *(f"--{name}={size}" for name, size in sizes.items() if size is not None),
            "--",
        )


def _filter_descriptor(boundary: Boundary) -> int:
    program = socket_filter(network=boundary.network, local_sockets=boundary.local_sockets)
    descriptor = os.memfd_create("weft-seccomp")
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
