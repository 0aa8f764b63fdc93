"""What the statements of the log need of a database.

Owns the two seams between our SQL and what runs it. Invariant: a statement is written once, in
words that SQLite and PostgreSQL both understand; what differs between them is a method of the
database or of its rows, never a second statement with the same meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

__all__ = ["FoundRows", "LogDatabase"]


class FoundRows(Protocol):
    """What a statement found, or how many rows it changed."""

    @property
    def rowcount(self) -> int:
        """Return how many rows were changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row; None where there is none."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class LogDatabase(Protocol):
    """A connection inside a transaction. Parameters are written ``?`` or ``:name``."""

    def execute(self, sql: str, parameters: Any = ..., /) -> FoundRows:
        """Run one statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> FoundRows:
        """Run one statement for each set of parameters; `rowcount` is of all of them."""
        ...
