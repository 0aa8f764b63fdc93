"""What `treadle doctor` says of a database with threads.

Owns which settings of a server break a promise of the log. Invariant: looking writes nothing but
the tables that every command would make, and never shows a password.
"""

from __future__ import annotations

import time

from msgspec import Struct

__all__ = ["DatabaseState", "database_state"]

_ROUNDS = 5


class DatabaseState(Struct, frozen=True, kw_only=True):
    """A database as it was found."""

    said: str
    trouble: str = ""
    remedy: str = ""
    damaged: tuple[str, ...] = ()


async def database_state(address: str) -> DatabaseState:
    """Look at a database. Raises `ConfigError` or `StoreError`."""
    from ..store.postgres.postgres_store import LEASE_SECONDS, PostgresStore

    async with await PostgresStore.open(address, patience_seconds=0) as store:
        facts = store.facts
        damaged = tuple(await store.find_damaged())
        threads = len(await store.threads())
        began = time.perf_counter()
        for _ in range(_ROUNDS):
            await store.threads(limit=1)
        milliseconds = (time.perf_counter() - began) / _ROUNDS * 1000
        read_only = store.read_only
        shown = store.where.shown
    leases = (
        f"leases are held by heartbeats (a pooler is between): a dead holder's end "
        f"{LEASE_SECONDS:g} s later"
        if facts.lease == "heartbeat"
        else "leases are held by session locks"
    )
    said = (
        f"{shown}, PostgreSQL {facts.version // 10_000}.{facts.version % 10_000}, {threads:,} "
        f"threads, {milliseconds:.1f} ms a question; {leases}"
    )
    trouble, remedy = "", ""
    if not facts.fsync:
        trouble = "its `fsync` is off, so a crash of its machine may lose or damage threads"
        remedy = "set `fsync = on` in postgresql.conf, but for tests"
    elif read_only:
        trouble = "it can only be read"
        remedy = "name the primary server, or have its owner `GRANT` this user what is missing"
    return DatabaseState(said=said, trouble=trouble, remedy=remedy, damaged=damaged)
