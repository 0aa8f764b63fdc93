"""One connection to the database.

Owns how our statements reach PostgreSQL. Invariants: what is shared with SQLite is translated,
never written twice; values come back in the types that SQLite would give; and a connection on
which a statement failed in a transaction is used again only after a rollback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Any

from ..log_database import FoundRows
from .database_address import Address
from .driver import Int8BinaryDumper, TransactionStatus, psycopg

__all__ = ["INDEX", "LOG", "PostgresConnection", "connect", "is_lost"]

LOG, INDEX = "treadle", "treadle_index"
"""The schemas with our tables: of the log, and of what can be rebuilt from it."""

_ENDED = ("57P01", "57P02", "57P03", "57P05", "25P03", "08000", "08003", "08006")
"""What a server says when it ends a session."""

_TABLES = "threads|origins|blobs|blob_users|entries|turns|inbox|outbox|requests|segments"
_TABLE = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE)(\s+)({_TABLES})\b")
_NAME = re.compile(r"(?<!:):([a-z_]+)\b")


@lru_cache(maxsize=512)
def _translate(sql: str, schema: str) -> bytes:
    """Return a statement of ours in the words of the driver, with tables in our schema."""
    named = _NAME.sub(r"%(\1)s", sql.replace("%", "%%").replace("?", "%s"))
    return _TABLE.sub(rf"\1\2{schema}.\3", named).encode()


class PostgresConnection:
    """A connection that understands the statements of the log."""

    def __init__(self, raw: psycopg.Connection[tuple[Any, ...]], schema: str = LOG) -> None:
        self.raw = raw
        self._schema = schema

    def in_index(self) -> PostgresConnection:
        """Return the same connection for statements of the index."""
        return PostgresConnection(self.raw, INDEX)

    def execute(self, sql: str, parameters: Any = (), /) -> FoundRows:
        """Run one statement."""
        return self.raw.cursor(binary=True).execute(_translate(sql, self._schema), parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> FoundRows:
        """Run one statement for each set of parameters; `rowcount` is of all of them."""
        cursor = self.raw.cursor(binary=True)
        cursor.executemany(_translate(sql, self._schema), parameters)
        return cursor

    def pipeline(self) -> AbstractContextManager[object]:
        """Send what is run in the block without waiting for each answer."""
        return self.raw.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        """Run the block in a transaction; whatever it raises undoes it."""
        self.raw.execute(begin.encode())
        try:
            yield
            self.raw.execute(b"COMMIT")
        except BaseException:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """End a transaction that failed; a connection that cannot even do that is closed."""
        if self.raw.closed or self.raw.info.transaction_status == TransactionStatus.IDLE:
            return
        try:
            self.raw.execute(b"ROLLBACK")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        with suppress(psycopg.Error):
            self.raw.close()


def connect(address: Address) -> PostgresConnection:
    """Connect, in autocommit mode. Raises `psycopg.Error`."""
    raw = psycopg.connect(address.url, autocommit=True, **address.options)
    # One type for all numbers: else each mix of sizes would be a statement of its own.
    raw.adapters.register_dumper(int, Int8BinaryDumper)
    return PostgresConnection(raw)


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection broke, so that nobody knows what the server did last."""
    if isinstance(error, psycopg.errors.PipelineAborted):
        return False
    unheard = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return (unheard and error.sqlstate is None) or (error.sqlstate or "") in _ENDED
