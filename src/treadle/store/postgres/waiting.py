"""Work that waits, and the bell that tells of it.

Owns who hears that there may be work. Invariant: the bell is never rung inside a commit of the
log: PostgreSQL lets commits that notify through one at a time, whatever the machine.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from itertools import islice

from ...core.errors import StoreError
from ..queries import find_work
from ..work import Work
from .connections import Connections
from .database_connection import PostgresConnection
from .driver import psycopg
from .lock_keys import lock_key

__all__ = ["WorkBell", "find_free_work"]

_CHANNEL = "treadle_work"
_LOCKS = """
  SELECT CAST(CAST(classid AS bigint) << 32 | CAST(objid AS bigint) AS bigint) FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_NAMED = """
  SELECT id, locked FROM threads
  WHERE holder IS NOT NULL AND lease_until >= clock_timestamp()
"""


def find_free_work(connection: PostgresConnection, limit: int) -> list[Work]:
    """Return threads with work whose lease looks free, the longest waiting first."""
    found = list(find_work(connection))
    held: set[str] = set()
    if any(named for _, named in found):
        locks = {row[0] for row in connection.execute(_LOCKS)}
        for thread, locked in connection.execute(_NAMED):
            # Who died is still named as the holder, but has no lock any more.
            if not locked or lock_key("lease", thread) in locks:
                held.add(thread)
    return list(islice((work for work, _ in found if work.thread not in held), limit))


class WorkBell:
    """Rings for all workers of a database, and hears it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._gate = threading.Lock()
        self._ear: PostgresConnection | None = None

    def ring(self) -> None:
        """Tell all who wait that there may be work. Blocks; may be lost."""
        self._connections.repeat(lambda db: db.execute("SELECT pg_notify(?, '')", (_CHANNEL,)))

    async def wait(self, seconds: float) -> None:
        """Return when the bell rings, at the latest after `seconds`."""
        ear = await self._connections.run(self._listen)
        if ear is None:
            await asyncio.sleep(seconds)
            return
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        descriptor = ear.raw.fileno()
        loop.add_reader(descriptor, heard.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await heard.wait()
        finally:
            loop.remove_reader(descriptor)
        if heard.is_set():
            await self._connections.run(self._empty)

    def _listen(self) -> PostgresConnection | None:
        """Return a connection that hears the bell; None where a pooler is between."""
        facts = self._connections.facts
        if facts is None or facts.pooled:
            return None
        with self._gate:
            if self._ear is None or self._ear.raw.closed:
                try:
                    self._ear = self._connections.open()
                    self._ear.raw.execute(f"LISTEN {_CHANNEL}".encode())
                except (StoreError, psycopg.Error):
                    self._ear = None
            return self._ear

    def _empty(self) -> None:
        """Take what was heard, so that it is not heard again."""
        with self._gate, suppress(psycopg.Error):
            if self._ear is not None:
                list(self._ear.raw.notifies(timeout=0))

    def close(self) -> None:
        """Stop listening."""
        with self._gate:
            if self._ear is not None:
                self._ear.close()
                self._ear = None
