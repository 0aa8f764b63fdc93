"""The contract of executors: everything that tools do to a machine.

Owns the `ToolExecutor` Protocol, so that the same tools work on this machine, in a container
or at the other end of a pipe. Invariant: an executor enforces the bounds it is given; it never
decides them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct, field

from ..sandbox.policy import SandboxPolicy

if TYPE_CHECKING:
    from ..sandbox.place import CommandPlace

__all__ = [
    "Bounds",
    "KnowsPlaces",
    "Process",
    "ProcessSpec",
    "ReportsRefusals",
    "ToolExecutor",
    "find_place",
]


class Bounds(Struct, frozen=True, kw_only=True):
    """What may be touched: a policy, and the directory that a thread works in."""

    policy: SandboxPolicy
    workspace: Path
    """Never a directory that a model chose: what may be written follows from it."""


class ProcessSpec(Struct, frozen=True, kw_only=True):
    """A process to start."""

    argv: tuple[str, ...]
    cwd: Path
    bounds: Bounds
    """`danger-full-access` runs it without a sandbox."""
    tty: bool = False
    env: dict[str, str] = field(default_factory=dict)
    """Added to the environment that commands always get; what launches them sees none of it."""
    thread: str = ""


class Process(Protocol):
    """A running process. When it ends, or is ended, so does all that it started."""

    def output(self) -> AsyncIterator[bytes]:
        """Read what it writes, stdout and stderr together, until it ends.

        One reader at a time. While nobody reads, a process that writes has to wait.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Type into its terminal. Raises `BrokenPipeError` when it has none or has ended."""
        ...

    async def wait(self) -> int:
        """Wait for its exit code; 128 and the signal when one ended it."""
        ...

    async def kill(self) -> None:
        """Kill it and all that it started, and wait until they are gone.

        Output that nobody has read is lost. Harmless when it has ended.
        """
        ...


@runtime_checkable
class ReportsRefusals(Protocol):
    """A process whose network is a list of hosts, and that can say what was refused.

    Its output says it, too, for the model.
    """

    async def take_refusals(self) -> tuple[str, ...]:
        """Take out what was refused since the last time, in a sentence each."""
        ...


class ToolExecutor(Protocol):
    """Where tools act.

    Paths are absolute, and valid in the executor's file system. Failures are `OSError`s with an
    errno, or `SandboxUnavailable`; a path outside the permissions raises `PermissionError`.
    """

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a process."""
        ...

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a regular file, at most `limit` bytes of it."""
        ...

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file atomically. Its directory must exist."""
        ...

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch atomically; return a report for the model. Raises `PatchError`."""
        ...

    async def close(self) -> None:
        """Kill every process that is still running. Harmless when called twice."""
        ...


@runtime_checkable
class KnowsPlaces(Protocol):
    """An executor that can say what a command's directory and search path lead to.

    It also runs shells by what it says: a bare name never means one that commands wrote.
    """

    def find_place(self, cwd: Path, *, bounds: Bounds) -> CommandPlace | None:
        """Return the place of a command in `cwd`; None when it cannot be told. Blocks on files."""
        ...


def find_place(executor: ToolExecutor, cwd: Path, bounds: Bounds) -> CommandPlace | None:
    """Return the place of a command, as far as `executor` knows its disk."""
    candidate: object = executor
    return candidate.find_place(cwd, bounds=bounds) if isinstance(candidate, KnowsPlaces) else None
