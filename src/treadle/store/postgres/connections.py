"""The connections of a store, and the threads that work on them.

Owns who has which connection when, and what happens when one breaks. Invariants: nothing blocks
the event loop; a connection that broke is never lent again; and only a job that may be repeated
is repeated.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from ...core.errors import StoreClosed
from .database_address import Address
from .database_connection import PostgresConnection, connect, is_lost
from .database_server import ServerFacts, look_at_server
from .driver import psycopg, quiet_driver
from .server_errors import is_momentary, server_errors, translate_error

__all__ = ["Connections", "Job", "Patience"]

T = TypeVar("T")
Job: TypeAlias = Callable[[PostgresConnection], T]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_TRIES = 20
_CLASHES = ("40001", "40P01", "23503")
"""Two transactions that got in each other's way; the one that was ended may begin again."""

_SESSION = """
  SELECT set_config('tcp_keepalives_idle', '4', false),
    set_config('tcp_keepalives_interval', '2', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '10000', false),
    set_config('idle_in_transaction_session_timeout', '30000', false)
"""
"""So that the server notices within seconds that a worker's host is gone."""


class Patience:
    """How long to go on trying to reach a server that was lost."""

    def __init__(self, seconds: float, closing: threading.Event) -> None:
        self._until = time.monotonic() + seconds
        self._closing = closing
        self._pause = _FIRST_PAUSE

    def wait(self) -> bool:
        """Wait a moment; return whether there is time to try again."""
        left = self._until - time.monotonic()
        if left <= 0 or self._closing.wait(min(self._pause, left)):
            return False
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return True


class Connections:
    """Runs jobs on connections, each in a thread of its own."""

    def __init__(self, address: Address, size: int, patience_seconds: float) -> None:
        quiet_driver()
        self.address = address
        self.facts: ServerFacts | None = None
        self._idle: deque[PostgresConnection] = deque()
        self._patience_seconds = patience_seconds
        self._closing = threading.Event()
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="treadle-postgres")

    async def run(self, job: Callable[[], T], discard: Callable[[T], None] | None = None) -> T:
        """Return the result of `job`, which runs in a thread; it may use `lend`.

        A caller that is cancelled cannot know whether the job was done. `discard` is given a
        result that nobody will receive.
        """
        return await self.wait_for(self.submit(job), discard)

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Start a job in a thread."""
        try:
            return self._threads.submit(job)
        except RuntimeError as error:  # the threads were shut down
            raise StoreClosed(f"{self.address.shown!r} was closed; open the store again") from error

    async def wait_for(self, work: Future[T], discard: Callable[[T], None] | None = None) -> T:
        """Wait for a job that was started."""
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if discard is not None and not work.cancelled():
                work.add_done_callback(lambda done: _discard(done, discard))
            raise

    async def query(self, job: Job[T]) -> T:
        """Return what a job that changes nothing finds, each statement for itself."""
        return await self.run(lambda: self.repeat(job))

    async def snapshot(self, job: Job[T]) -> T:
        """Return what a job finds in one snapshot of the database."""

        def look(connection: PostgresConnection) -> T:
            with connection.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
                return job(connection)

        return await self.query(look)

    async def write(self, job: Job[T]) -> T:
        """Return the result of a job in one transaction that waits for the disk.

        The job is done again when the connection broke and nobody knows what became of it: it
        must be one whose second time changes nothing.
        """
        return await self.run(lambda: self.repeat(lambda db: self.transact(db, job)))

    def transact(self, connection: PostgresConnection, job: Job[T]) -> T:
        """Run a job in one transaction that waits for the disk."""
        with connection.transaction():
            self.set_durability(connection, light=False)
            return job(connection)

    def set_durability(self, connection: PostgresConnection, *, light: bool) -> None:
        """Say in a transaction whether its commit waits for the disk."""
        durable = self.facts is None or self.facts.commits_durably
        if light or not durable:
            wanted = "off" if light else "on"
            connection.execute("SELECT set_config('synchronous_commit', ?, true)", (wanted,))

    def repeat(self, job: Job[T]) -> T:
        """Run a job that may be repeated, until it was done or patience ends. Blocks."""
        patience = self.patience()
        for _ in range(_TRIES):
            with self.lend(patience) as connection:
                try:
                    return job(connection)
                except psycopg.Error as error:
                    lost = is_lost(error)
                    # The driver may think that it has prepared what was not run.
                    connection.close()
                    if not (lost or error.sqlstate in _CLASHES) or not patience.wait():
                        raise translate_error(error, self.address) from error
        with self.lend(patience) as connection, server_errors(self.address):
            return job(connection)

    def patience(self) -> Patience:
        """Return how long a job may wait for the server to come back."""
        return Patience(self._patience_seconds, self._closing)

    @contextmanager
    def lend(self, patience: Patience | None = None) -> Iterator[PostgresConnection]:
        """Lend a connection to this thread; without patience, to a server that answers now."""
        connection = self._take() or self.open(patience)
        try:
            yield connection
        except BaseException:
            connection.roll_back()
            raise
        finally:
            self._give_back(connection)

    def open(self, patience: Patience | None = None) -> PostgresConnection:
        """Open one more connection, which the caller closes. Raises `StoreError`."""
        while True:
            try:
                connection = connect(self.address)
            except psycopg.Error as error:
                if patience is None or not is_momentary(error) or not patience.wait():
                    raise translate_error(error, self.address) from error
                continue
            try:
                self._prepare(connection)
            except psycopg.Error as error:
                connection.close()
                if patience is None or not patience.wait():
                    raise translate_error(error, self.address) from error
                continue
            return connection

    def _prepare(self, connection: PostgresConnection) -> None:
        if self.facts is None:
            self.facts = look_at_server(connection)
        if self.facts.pooled:
            # What is set or prepared would stay with a session that somebody else gets next.
            connection.raw.prepare_threshold = None
        else:
            connection.execute(_SESSION)

    def _take(self) -> PostgresConnection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _give_back(self, connection: PostgresConnection) -> None:
        if connection.raw.closed:
            return
        if self._closing.is_set():
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Finish the jobs under way, then close the connections. Blocks."""
        self._threads.shutdown()
        self._closing.set()
        while (connection := self._take()) is not None:
            connection.close()


def _discard(done: Future[Any], discard: Callable[[Any], None]) -> None:
    if not done.cancelled() and done.exception() is None:
        discard(done.result())
