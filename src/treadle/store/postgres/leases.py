"""Leases across hosts.

Owns the one connection that holds the locks of a store's leases, and how long a lease holds
without it. A session lock is freed by the server when its socket dies; a lease that nobody
renewed has run out, by the clock of the database. Both only say when to try: invariant is that
the fence and the token in the thread's row decide, inside every commit.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from msgspec import Struct

from ...core.errors import NotFound, StoreError, ThreadBusy
from ...core.typed import decode_json
from ...core.wire import json_bytes
from ..contract import Holder
from ..lineage import delete_thread
from .connections import Connections, Patience
from .database_connection import PostgresConnection, is_lost
from .driver import psycopg
from .lock_keys import lock_key, lock_parts
from .server_errors import server_errors, translate_error

__all__ = ["KnownThread", "LeaseKeeper", "PostgresLease", "delete_free_thread"]

_IS_FREE = "(holder IS NULL OR locked OR lease_until IS NULL OR lease_until < clock_timestamp())"
"""Whether a thread can be taken by whoever has its lock: a holder with a lock would have it."""

_TAKE = f"""
  UPDATE threads SET fence = fence + 1, holder = :holder, token = :token, locked = :locked,
    lease_until = clock_timestamp() + :seconds * interval '1 second'
  WHERE id = :thread AND deleted IS NULL AND {_IS_FREE}
  RETURNING number, fence, last, turns, updated, commits, parent IS NULL
"""
_RENEW = """
  UPDATE threads SET lease_until = clock_timestamp() + :seconds * interval '1 second'
  WHERE number = ANY(:numbers) AND token = ANY(:tokens)
"""
_RELEASE = """
  UPDATE threads SET holder = NULL, token = NULL, locked = false, lease_until = NULL
  WHERE number = :number AND token = :token
"""
_END_HOLDER = """
  SELECT pg_terminate_backend(pid, 2000) FROM pg_locks
  WHERE locktype = 'advisory' AND classid = :high AND objid = :low AND objsubid = 1 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_RENEWALS = 3
"""How often a lease is renewed before it would run out."""


class KnownThread(Struct):
    """What the holder of a lease knows of the thread's row, without asking."""

    last: int
    turns: int
    updated: int
    commits: int
    is_root: bool
    """Whether it shares nothing, so that its own turns are all there are."""
    newest: int | None = None
    """The time of the newest entry, once it mattered."""


class PostgresLease(Struct, eq=False, kw_only=True):
    """The right to write one thread of a `PostgresStore`."""

    thread: str
    fence: int
    number: int
    token: str
    """Says who holds it, also after the fence was raised to shut out a transaction of ours."""
    known: KnownThread | None
    """None when the row must be read first."""
    on_release: Callable[[PostgresLease], Awaitable[None]]
    commits: int
    """How many changes the server has said to have, those of earlier holders included."""
    is_lost: bool = False
    tail: Future[Any] | None = None
    """The change that was asked for last: changes are applied in the order they were asked for."""

    async def release(self) -> None:
        """Release the thread. Harmless when called twice."""
        await self.on_release(self)


class LeaseKeeper:
    """Takes, renews and gives back the leases of one store. Its methods block."""

    def __init__(
        self,
        connections: Connections,
        seconds: float,
        on_release: Callable[[PostgresLease], Awaitable[None]],
    ) -> None:
        self.held: set[PostgresLease] = set()
        self._connections = connections
        self._seconds = seconds
        self._on_release = on_release
        self._gate = threading.RLock()
        self._locks: PostgresConnection | None = None
        """The connection whose session has the locks."""
        self._closed = threading.Event()
        self._renewer: threading.Thread | None = None

    @property
    def _locks_sessions(self) -> bool:
        facts = self._connections.facts
        return facts is not None and facts.lease == "session"

    def acquire(self, thread: str, holder: Holder) -> PostgresLease:
        """Take the lease of a thread. Raises `ThreadBusy` or `NotFound`."""
        patience = self._connections.patience()
        while True:
            with self._gate:
                connection = self._connection(patience)
                try:
                    lease = self._acquire(connection, thread, holder)
                except psycopg.Error as error:
                    if not is_lost(error) or not patience.wait():
                        raise translate_error(error, self._connections.address) from error
                    continue
                self.held.add(lease)
                self._start_renewing()
                return lease

    def _acquire(
        self, connection: PostgresConnection, thread: str, holder: Holder
    ) -> PostgresLease:
        if any(lease.thread == thread and not lease.is_lost for lease in self.held):
            raise _busy(connection, thread)
        with self._lock(connection, thread):
            token = uuid4().hex
            row = connection.execute(
                _TAKE,
                {
                    "holder": json_bytes(holder).decode(),
                    "token": token,
                    "locked": self._locks_sessions,
                    "seconds": self._seconds,
                    "thread": thread,
                },
            ).fetchone()
            if row is None:
                raise _busy(connection, thread)
        number, fence, last, turns, updated, commits, is_root = row
        return PostgresLease(
            thread=thread,
            fence=fence,
            number=number,
            token=token,
            known=KnownThread(last, turns, updated, commits, is_root),
            on_release=self._on_release,
            commits=commits,
        )

    @contextmanager
    def _lock(self, connection: PostgresConnection, thread: str) -> Iterator[None]:
        """Lock a thread: for the session, or where sessions are shared, for this transaction."""
        key = (lock_key("lease", thread),)
        if not self._locks_sessions:
            with connection.transaction():
                if not _try(connection, "SELECT pg_try_advisory_xact_lock(?)", key):
                    self._end_stuck_holder(connection, thread)
                    raise _busy(connection, thread)
                yield
            return
        if not _try(connection, "SELECT pg_try_advisory_lock(?)", key) and not (
            self._end_stuck_holder(connection, thread)
            and _try(connection, "SELECT pg_try_advisory_lock(?)", key)
        ):
            raise _busy(connection, thread)
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock(?)", key)
            raise

    def _end_stuck_holder(self, connection: PostgresConnection, thread: str) -> bool:
        """End the session of a holder that has the lock, but stopped renewing its lease."""
        stuck = connection.execute(
            "SELECT 1 FROM threads WHERE id = ? AND locked AND lease_until < clock_timestamp()",
            (thread,),
        ).fetchone()
        if stuck is None:
            return False
        high, low = lock_parts(lock_key("lease", thread))
        try:
            ended = connection.execute(_END_HOLDER, {"high": high, "low": low}).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            return False
        return bool(ended)

    def release(self, lease: PostgresLease) -> None:
        """Give a lease back. A server that is lost has freed the lock, or will."""
        with self._gate:
            if lease not in self.held:
                return
            self.held.discard(lease)
            if self._locks is None and self._locks_sessions:
                return
            with suppress(psycopg.Error, StoreError):
                connection = self._connection()
                row = {"number": lease.number, "token": lease.token}
                connection.execute(_RELEASE, row)
                if self._locks_sessions:
                    key = lock_key("lease", lease.thread)
                    connection.execute("SELECT pg_advisory_unlock(?)", (key,))

    def close(self) -> None:
        """Stop renewing, and close the connection with the locks."""
        self._closed.set()
        with self._gate:
            if self._locks is not None:
                self._locks.close()
                self._locks = None
        if self._renewer is not None:
            self._renewer.join()

    def _connection(self, patience: Patience | None = None) -> PostgresConnection:
        """Return the connection with the locks; a new one takes those of the leases again."""
        if self._locks is None or self._locks.raw.closed:
            self._locks = self._connections.open(patience)
            if self._locks_sessions:
                with server_errors(self._connections.address):
                    for lease in self.held:
                        # Where somebody was faster, the fence tells in the next commit.
                        key = lock_key("lease", lease.thread)
                        _try(self._locks, "SELECT pg_try_advisory_lock(?)", (key,))
        return self._locks

    def _start_renewing(self) -> None:
        if self._renewer is None:
            self._renewer = threading.Thread(
                target=self._renew, name="treadle-postgres-leases", daemon=True
            )
            self._renewer.start()

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds / _RENEWALS):
            with self._gate, suppress(psycopg.Error, StoreError):
                if self.held and not self._closed.is_set():
                    self._renew_once(self._connection())

    def _renew_once(self, connection: PostgresConnection) -> None:
        with connection.transaction():
            self._connections.set_durability(connection, light=True)
            connection.execute(
                _RENEW,
                {
                    "seconds": self._seconds,
                    "numbers": [lease.number for lease in self.held],
                    "tokens": [lease.token for lease in self.held],
                },
            )


def _describe_holder(connection: PostgresConnection, thread: str) -> str:
    """Describe who has a thread."""
    row = connection.execute("SELECT holder FROM threads WHERE id = ?", (thread,)).fetchone()
    if row is None or row[0] is None:
        return "another process"
    return str(decode_json(row[0], Holder))


def _busy(connection: PostgresConnection, thread: str) -> ThreadBusy | NotFound:
    row = connection.execute(
        "SELECT 1 FROM threads WHERE id = ? AND deleted IS NULL", (thread,)
    ).fetchone()
    if row is None:
        return NotFound("thread", thread, "`treadle threads` lists those that exist")
    return ThreadBusy(thread, _describe_holder(connection, thread))


def _try(connection: PostgresConnection, sql: str, key: tuple[int]) -> bool:
    return bool(connection.execute(sql, key).fetchone()[0])


def delete_free_thread(connection: PostgresConnection, thread: str, now: int) -> None:
    """Delete a thread that nobody writes. Raises `ThreadBusy` or `NotFound`."""
    key = (lock_key("lease", thread),)
    free = f"SELECT 1 FROM threads WHERE id = ? AND deleted IS NULL AND {_IS_FREE} FOR UPDATE"
    if not _try(connection, "SELECT pg_try_advisory_xact_lock(?)", key):
        raise _busy(connection, thread)
    if connection.execute(free, (thread,)).fetchone() is None:
        raise _busy(connection, thread)
    delete_thread(connection, thread, now)
