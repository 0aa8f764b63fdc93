"""The life of an executor that is elsewhere: made, found again, paused, ended.

Owns what a thread remembers of where its commands run, and the optional powers of executors.
Invariant: whatever has an identity can be found again by it, from any process, until it is
stopped; what cannot be found is `ExecutorGone`, and never silently made anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from .executor import ToolExecutor

__all__ = [
    "ExecutorGone",
    "ExecutorRecord",
    "ExecutorSource",
    "ExposesFiles",
    "HasIdentity",
    "Leaves",
    "LivingExecutor",
    "Pauses",
    "Stops",
]


class ExecutorGone(ConnectionError):
    """What the commands of a thread ran in is not there any more, with all that was in it."""


class ExecutorRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the commands of a thread run; a `settings` entry of its log holds it."""

    kind: str
    """``docker``, ``ssh`` …: who knows how to find it."""
    where: str
    """What the user asked for, such as ``docker:python:3.13``."""
    id: str = ""
    """Its name there, such as a container's."""
    image: str = ""
    workspace: str
    """The directory that the thread works in, as it is called there."""
    shell: str = "bash"
    """The shell for command lines there."""
    owner: str = ""
    """The thread that it was made for; a fork gets one of its own."""
    number: int = 1
    """Counts those that the thread has had."""
    carried: bool = False
    """Whether the files of the one before came along."""


@runtime_checkable
class HasIdentity(Protocol):
    """An executor that can be found again."""

    @property
    def record(self) -> ExecutorRecord:
        """Return by what it is found."""
        ...


@runtime_checkable
class Pauses(Protocol):
    """An executor that can rest: it keeps its files, and uses nothing else."""

    async def pause(self) -> None:
        """End what runs there, and let it rest until somebody connects again."""
        ...


@runtime_checkable
class Stops(Protocol):
    """An executor that can be removed for good, with all of its files."""

    async def stop(self) -> None:
        """End and remove it. Harmless when it is gone."""
        ...


@runtime_checkable
class ExposesFiles(Protocol):
    """An executor whose files a person can reach."""

    def locate(self, path: Path) -> str:
        """Return how a person reaches a file there: a path of this machine, or an address."""
        ...


@runtime_checkable
class Leaves(Protocol):
    """An executor that is more than closed when its thread is."""

    async def leave(self) -> None:
        """End what runs there, and let it rest or be removed, as the user wants it."""
        ...


class LivingExecutor(ToolExecutor, HasIdentity, Protocol):
    """An executor with an identity and a connection."""

    @property
    def is_connected(self) -> bool:
        """Return whether it can be asked; else `ExecutorSource.connect` finds it again."""
        ...


class ExecutorSource(Protocol):
    """Where executors of one kind come from."""

    @property
    def plan(self) -> ExecutorRecord:
        """Return what an executor would be, without making one; its `id` is not known yet."""
        ...

    @property
    def contains(self) -> bool:
        """Return whether what it makes is a boundary of its own, as a container is."""
        ...

    @property
    def description(self) -> str:
        """Return in some words what commands run in, for the model and for people."""
        ...

    async def start(self, thread: str) -> LivingExecutor:
        """Make one for a thread, or find the one that was made for it. Raises `OSError`."""
        ...

    async def connect(self, record: ExecutorRecord) -> LivingExecutor:
        """Find the one of a record, and wake it. Raises `ExecutorGone`, else `OSError`."""
        ...

    async def stop(self, record: ExecutorRecord) -> None:
        """Remove the one of a record, whether it rests or not. Raises `OSError`."""
        ...
