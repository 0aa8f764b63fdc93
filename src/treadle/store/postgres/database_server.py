"""What a server says of itself when we connect.

Owns the facts that decide how the store works with it, and the server's clock. Invariant: times
and leases go by the clock of the database; those of the workers may differ by hours.
"""

from __future__ import annotations

import time
from typing import Literal, TypeAlias

from msgspec import Struct

from .database_connection import PostgresConnection

__all__ = ["LeaseKind", "ServerClock", "ServerFacts", "look_at_server"]

LeaseKind: TypeAlias = Literal["session", "heartbeat"]

# The clock that goes on while a machine sleeps, where there is one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

MILLISECONDS = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
"""The time of the database, as our tables have it."""


class ServerFacts(Struct, frozen=True, kw_only=True):
    """What the store needs to know of a server."""

    version: int
    """Such as 150018."""
    pooled: bool
    """Whether a pooler is between: what belongs to a session need not hold there."""
    standby: bool
    default_commit: str
    """What the server's own setting `synchronous_commit` is."""
    fsync: bool
    now: int

    @property
    def lease(self) -> LeaseKind:
        """Return how leases are held."""
        return "heartbeat" if self.pooled else "session"

    @property
    def commits_durably(self) -> bool:
        """Return whether a commit waits for the disk without being told."""
        return self.default_commit != "off"


def look_at_server(connection: PostgresConnection) -> ServerFacts:
    """Ask a server for its facts."""
    backend, version, standby, commit, fsync, now = connection.execute(
        "SELECT pg_backend_pid(), CAST(current_setting('server_version_num') AS integer), "
        "pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', "
        "current_setting('synchronous_commit'), current_setting('fsync') = 'on', " + MILLISECONDS
    ).fetchone()
    return ServerFacts(
        version=version,
        # A pooler gives each client a number of its own, not that of the session it lends.
        pooled=connection.raw.info.backend_pid != backend,
        standby=standby,
        default_commit=commit,
        fsync=fsync,
        now=now,
    )


class ServerClock:
    """The time of the database, as of the last answer and the time since."""

    def __init__(self, now: int) -> None:
        self._then, self._at = now, time.clock_gettime(_STEADY)

    def now(self) -> int:
        """Return the milliseconds since 1970."""
        return self._then + int((time.clock_gettime(_STEADY) - self._at) * 1000)

    def sync(self, now: int) -> None:
        """Take over what the database just said."""
        self._then, self._at = now, time.clock_gettime(_STEADY)
