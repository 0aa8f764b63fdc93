"""The inventory: everything that a library holds, read in one go.

Owns looking at ``lossless.db`` from outside. Invariants: it is one snapshot, and looking
changes nothing, also where nothing can be written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from ....core.errors import StoreCorrupt, StoreTooNew
from ....store.database import closed_on_error, connect, sqlite_errors
from ..nodes import Node
from ..shelf import APPLICATION_ID, VERSION

__all__ = ["Debt", "Inventory", "Known", "inventory_of", "reading"]

_node = msgspec.msgpack.Decoder(Node)


class Debt(Struct, frozen=True, kw_only=True):
    """A summary that is still to be made, or to be made by a model."""

    key: str
    thread: str
    first: int
    last: int
    depth: int
    attempts: int
    error: str | None
    created: int
    """Milliseconds since 1970, like the others."""
    leased: bool
    until: int
    """When its lease runs out."""
    after: int
    """It is not tried before."""


class Known(Struct, frozen=True):
    """How far the turns of a thread are known."""

    turns: int = 0
    last: int = 0


class Inventory(Struct, frozen=True, kw_only=True):
    """What a library holds."""

    nodes: dict[str, Node] = {}
    debts: tuple[Debt, ...] = ()
    """Oldest first."""
    turns: dict[str, Known] = {}
    notes: dict[str, int] = {}
    """How many notes each thread has."""
    told: frozenset[str] = frozenset()
    """Threads that were told how to recall."""

    @property
    def threads(self) -> set[str]:
        """Every thread that it knows something of."""
        made = {node.thread for node in self.nodes.values()}
        owed = {debt.thread for debt in self.debts}
        return made | owed | self.turns.keys() | self.notes.keys() | self.told


def inventory_of(path: Path) -> Inventory:
    """Everything in the file; an empty inventory where there is none."""
    if not path.exists():
        return Inventory()
    with reading(path) as db:
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            return Inventory()
        db.execute("BEGIN")
        nodes = [_node.decode(row[0]) for row in db.execute("SELECT node FROM nodes")]
        return Inventory(
            nodes={node.id: node for node in nodes},
            debts=tuple(_debts(db)),
            turns={
                thread: Known(turns, last)
                for thread, turns, last in db.execute(
                    "SELECT thread, count(*), max(last) FROM turns GROUP BY thread"
                )
            },
            notes=dict(db.execute("SELECT thread, count(*) FROM notes GROUP BY thread")),
            told=frozenset(row[0] for row in db.execute("SELECT DISTINCT thread FROM told")),
        )


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, open for reading only. Raises `StoreError`."""
    with sqlite_errors(path), closing(_opened(path)) as db:
        yield db


def _opened(path: Path) -> sqlite3.Connection:
    try:
        return _checked(path, "mode=ro")
    except sqlite3.OperationalError:
        # Where the shared memory of a WAL can neither be found nor made, a file without
        # a pending one is complete by itself.
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            raise
        return _checked(path, "mode=ro&immutable=1")


def _checked(path: Path, query: str) -> sqlite3.Connection:
    connection = connect(path, query)
    with closed_on_error(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if version > VERSION:
            raise StoreTooNew(
                f"{str(path)!r} was written by a newer Treadle; upgrade to look at it"
            )
        if version and application != APPLICATION_ID:
            raise StoreCorrupt(f"{str(path)!r} is no library of summaries; move it away")
    return connection


def _debts(db: sqlite3.Connection) -> Iterator[Debt]:
    rows = db.execute(
        "SELECT key, thread, first, last, depth, attempts, error, created, "
        "owner IS NOT NULL, until, after FROM jobs ORDER BY created, first"
    )
    for key, thread, first, last, depth, attempts, error, created, leased, until, after in rows:
        yield Debt(
            key=key,
            thread=thread,
            first=first,
            last=last,
            depth=depth,
            attempts=attempts,
            error=error,
            created=created,
            leased=bool(leased),
            until=until,
            after=after,
        )
