"""What an index can do beside searches: catch up with a large home, and make vectors.

Owns the Protocol of that power, which an index need not have. Invariant: who uses it waits for
nothing but its own call.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .contract import Progress

if TYPE_CHECKING:
    from .search.coverage import IndexCoverage

__all__ = ["IndexesBeside"]


@runtime_checkable
class IndexesBeside(Protocol):
    """An index that brings itself up to date beside those who use it."""

    async def coverage(self) -> IndexCoverage:
        """Return how much of the living threads is indexed."""
        ...

    def begin_indexing(self, home: Path, address: str | None = None, *, after: float = 5) -> None:
        """Index from then on what is not indexed yet, in a process of its own.

        `home` and `address` say where the threads are. `after` are the seconds before it looks
        for the first time: most commands are over by then.
        """
        ...

    async def build_vectors(self, *, progress: Progress | None = None) -> None:
        """Give vectors to what is indexed and has none; the extra `semantic` makes them."""
        ...
