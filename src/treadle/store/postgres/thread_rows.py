"""A thread while a change is written to it, over a network.

Owns what differs from the same work in a local file: nothing is asked that is known, and nothing
is waited for. Invariant: what is assumed is checked by the server in the same transaction, and an
assumption that does not hold ends it.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from ...core.errors import LeaseLost, NotFound, StoreReplaced
from ..contract import Admission, Turn
from ..rows import Row
from ..updates import ThreadRows
from .database_connection import PostgresConnection
from .leases import KnownThread, PostgresLease

__all__ = ["PostgresThreadRows", "assume_log", "read_log"]

_ONE = "WITH changed AS ({} RETURNING 1) SELECT 1 / count(*) FROM changed"
"""Fails, by a division by zero, where a statement changed nothing."""

_ASSUME = """
  SELECT 1 / count(*) FROM (
    SELECT 1 FROM threads WHERE number = ? AND fence = ? AND token = ? AND commits = ?
      AND deleted IS NULL FOR NO KEY UPDATE
  ) AS held
"""
_READ = """
  SELECT number, last, turns, updated, commits, parent IS NULL, fence, token, deleted
  FROM threads WHERE number = ? FOR NO KEY UPDATE
"""


class PostgresThreadRows(ThreadRows):
    """One thread while a change is written to it."""

    CLOSE: ClassVar[str] = ThreadRows.CLOSE.replace("SET ", "SET commits = commits + 1, ", 1)

    known: KnownThread = field(default_factory=lambda: KnownThread(0, 0, 0, 0, is_root=False))
    numbers: dict[str, int] = field(default_factory=dict)
    """The numbers of origins that were stored before."""
    assumes: bool = False

    def earlier_turn(self, admission: Admission) -> Turn | None:
        """Return the turn that was admitted under the id of `admission` before, if any."""
        if self.assumes and self.known.is_root:
            return None  # the key of the table says whether that is true
        return super().earlier_turn(admission)

    def origin_number(self, text: str) -> int:
        """Return under which number an origin is stored; store one that is new."""
        number = self.numbers.get(text)
        return super().origin_number(text) if number is None else number

    def change_one(self, sql: str, parameters: Row, missing: NotFound) -> None:
        """Change a row that must be there."""
        if self.assumes:
            self.connection.execute(_ONE.format(sql), parameters)
        else:
            super().change_one(sql, parameters, missing)


def assume_log(
    connection: PostgresConnection, lease: PostgresLease, known: KnownThread, now: int
) -> PostgresThreadRows:
    """Open a log that is as the holder of the lease left it; the server checks that it is."""
    connection.execute(_ASSUME, (lease.number, lease.fence, lease.token, known.commits))
    return _open(connection, lease, known, now, assumes=True)


def read_log(connection: PostgresConnection, lease: PostgresLease, now: int) -> PostgresThreadRows:
    """Open a log as it is. Raises `LeaseLost` or `NotFound`."""
    row = connection.execute(_READ, (lease.number,)).fetchone()
    if row is None or row[-1] is not None:
        raise NotFound("thread", lease.thread, "it was deleted")
    *state, fence, token, _ = row[1:]
    if (fence, token) != (lease.fence, lease.token):
        raise LeaseLost(lease.thread)
    known = KnownThread(*state)
    if known.commits < lease.commits:
        raise StoreReplaced(
            f"the server has lost the last {lease.commits - known.commits} changes of thread "
            f"{lease.thread!r}: it ended before they were on its disk; open the thread again"
        )
    return _open(connection, lease, known, now, assumes=False)


def _open(
    connection: PostgresConnection,
    lease: PostgresLease,
    known: KnownThread,
    now: int,
    *,
    assumes: bool,
) -> PostgresThreadRows:
    return PostgresThreadRows(
        connection,
        lease.thread,
        lease.number,
        known.last,
        known.turns,
        # A clock that is set back must not put an entry before its predecessor.
        max(now, known.updated),
        newest=known.newest,
        known=known,
        assumes=assumes,
    )
