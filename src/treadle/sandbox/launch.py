"""Launches: how to start a command, without starting it.

Owns the `Sandbox` Protocol, so that one runner with pipes or a terminal serves every sandbox.
Invariant: whatever a launch holds (descriptors, placeholders) is released when it is closed.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from .boundary import Boundary

__all__ = ["Launch", "NoSandbox", "Sandbox"]


@dataclass(slots=True)
class Launch:
    """What to give to the operating system.

    Spawn `argv` with exactly `env`, which is that of the programs that launch a command and
    not always the command's own, in `cwd` (anywhere without one), with `fds` inherited under
    the same numbers. Spawn it from a thread that lives on: the sandbox ends with that thread.
    To end it early, kill it (SIGKILL); other signals may not get through. Keep the
    launch open until the process has ended, then close it.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path | None
    fds: tuple[int, ...] = ()
    handover: socket.socket | None = None
    """Where a sandbox whose network is a list of hosts sends the socket that a proxy listens on."""
    keeps_all: bool = False
    """Whether the kernel lets nothing outlive the process, if that one ends by itself."""
    _resources: ExitStack = field(default_factory=ExitStack, repr=False)

    def close(self) -> None:
        """Release what the launch holds. Harmless when called twice."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sandbox(Protocol):
    """Turns a command into a launch that keeps it inside a boundary.

    Raises `SandboxUnavailable` when it cannot, and never returns a weaker launch instead.
    It starts no process itself.
    """

    def prepare(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        boundary: Boundary,
        tty: bool = False,
    ) -> Launch:
        """Prepare to start `argv` with the environment `env`, which reaches nothing else.

        With `tty`, standard input is a terminal that has no session yet: the command
        takes it as its own, so that Ctrl-C there reaches the command alone.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Starts commands as they are: they can do whatever the user can do.

    For `danger-full-access`, and for single commands that the user let leave the sandbox.
    """

    def prepare(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        boundary: Boundary,
        tty: bool = False,
    ) -> Launch:
        """Prepare to start `argv` unconfined; the boundary is ignored."""
        del boundary, tty
        return Launch(tuple(argv), dict(env), cwd)
