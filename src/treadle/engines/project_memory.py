"""Memory across the threads of a project, where the user shares it.

Owns how an engine asks for it. Invariant: who shares with whom the host decides; a log without
the capability shares nothing.
"""

from __future__ import annotations

from typing import Protocol

from ..core.capability import offers
from .values import LogReader

__all__ = ["GrantsProject", "SharesProject", "index_project", "project_threads"]


class GrantsProject(Protocol):
    """Grants that know which threads belong to one project."""

    async def project(self, reader: str) -> tuple[str, ...]:
        """Return the other threads of the reader's project that it shares memory with."""
        ...


class SharesProject(Protocol):
    """A log that belongs to a project."""

    async def project(self) -> tuple[str, ...]:
        """Return the other threads that share their memory with this one, the newest first."""
        ...

    async def index_project(self) -> None:
        """Index what they say that is new; it may take long, and can be cancelled."""
        ...


async def project_threads(log: LogReader) -> tuple[str, ...]:
    """Return the threads that share their memory with the thread of `log`."""
    return await log.project() if offers(log, SharesProject) else ()


async def index_project(log: LogReader) -> None:
    """Index the threads of a project beside the turns, so that a search finds them at once."""
    if offers(log, SharesProject):
        await log.index_project()
