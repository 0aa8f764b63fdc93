"""The state of profiles: their health, their order, and the pins of threads.

Owns ``auth-state.db``, which holds no secret. Invariants: every change is one transaction
that reads what it changes, so that processes do not overwrite each other; and a damaged
file is moved away, so that a turn never fails because of it.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from ...core.errors import StoreCorrupt
from ...core.typed import decode_json
from ...core.wire import UNREADABLE, json_bytes
from ...store.database import connect, ensure_writable, sqlite_errors, start_wal
from .cooldowns import ProfileHealth
from .credential import Source, provider_in
from .order import Pin
from .secrets import hold_lock

__all__ = ["AuthState", "Clock", "ProfileFacts", "now"]

Clock = Callable[[], int]
"""Returns the time in milliseconds."""

_log = logging.getLogger(__name__)
_BUSY_SECONDS = 10.0
_VERSION = 1
_STALE = 90 * 24 * 3600 * 1000
"""Milliseconds after which an unused pin that nobody chose is deleted."""

_TABLES = """
CREATE TABLE IF NOT EXISTS health (profile TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orders (provider TEXT PRIMARY KEY, ids TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS good (provider TEXT PRIMARY KEY, profile TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pins (
  thread TEXT PRIMARY KEY, provider TEXT NOT NULL, profile TEXT NOT NULL,
  source TEXT NOT NULL, at INTEGER NOT NULL
) WITHOUT ROWID;
"""

_HEALTH = "SELECT profile, value FROM health"
_ORDERS = "SELECT provider, ids FROM orders"
_PIN = "SELECT thread, provider, profile, source FROM pins WHERE thread = ?"


class ProfileFacts(Struct, frozen=True, kw_only=True):
    """What is known about the profiles of a provider, for one turn."""

    health: dict[str, ProfileHealth] = {}
    order: tuple[str, ...] = ()
    pin: Pin | None = None


def now() -> int:
    """Return the time in milliseconds."""
    return time.time_ns() // 1_000_000


class AuthState(Struct, frozen=True):
    """The stored state of the profiles of one home."""

    home: Path
    clock: Clock = now

    @property
    def path(self) -> Path:
        """The path of the database."""
        return self.home / "auth-state.db"

    def load(self, provider: str, thread: str) -> ProfileFacts:
        """Return the facts for one turn of `thread` with `provider`, read in one transaction."""
        if not self.path.exists():
            return ProfileFacts()
        with self._open() as database, _transaction(database, "DEFERRED"):
            health = database.execute(_HEALTH).fetchall()
            order = database.execute(f"{_ORDERS} WHERE provider = ?", (provider,)).fetchone()
            pin = database.execute(_PIN, (thread,)).fetchone()
        return ProfileFacts(
            health={profile: _health(value) for profile, value in health},
            order=_ids(order[1]) if order else (),
            pin=_pin(*pin) if pin else None,
        )

    def health(self) -> dict[str, ProfileHealth]:
        """Return the health of every profile that was used."""
        return {profile: _health(value) for profile, value in self._rows(_HEALTH)}

    def update_health(
        self, profile: str, step: Callable[[ProfileHealth], ProfileHealth]
    ) -> ProfileHealth:
        """Replace the health of a profile by `step` of it; return the new one."""
        with self._open() as database, _transaction(database):
            return _update_health(database, profile, step)

    def mark_used(
        self, profile: str, step: Callable[[ProfileHealth], ProfileHealth]
    ) -> ProfileHealth:
        """Update the health of a profile that worked, and store it as its provider's last good."""
        with self._open() as database, _transaction(database):
            database.execute("REPLACE INTO good VALUES (?, ?)", (provider_in(profile), profile))
            return _update_health(database, profile, step)

    def last_good(self) -> dict[str, str]:
        """Return for each provider the profile that worked last."""
        return dict(self._rows("SELECT provider, profile FROM good"))

    def order(self, provider: str) -> tuple[str, ...]:
        """Return the order that was set for `provider`."""
        return self.orders().get(provider, ())

    def orders(self) -> dict[str, tuple[str, ...]]:
        """Return every order that was set, by provider."""
        return {provider: _ids(text) for provider, text in self._rows(_ORDERS)}

    def set_order(self, provider: str, ids: tuple[str, ...]) -> None:
        """Store `ids` as the order of `provider`; an empty one deletes the order."""
        with self._open() as database, _transaction(database):
            if ids:
                text = json_bytes(ids).decode()
                database.execute("REPLACE INTO orders VALUES (?, ?)", (provider, text))
            else:
                database.execute("DELETE FROM orders WHERE provider = ?", (provider,))

    def pin(self, thread: str) -> Pin | None:
        """Return the pin of `thread`."""
        found = self._rows(_PIN, thread)
        return _pin(*found[0]) if found else None

    def set_pin(self, pin: Pin) -> None:
        """Pin a thread to a profile; a pin that a person chose is replaced by another such only."""
        at = self.clock()
        row = (pin.thread, pin.provider, pin.profile, pin.source, at)
        with self._open() as database, _transaction(database):
            database.execute(
                "INSERT INTO pins VALUES (?, ?, ?, ?, ?) ON CONFLICT (thread) DO UPDATE SET "
                "provider = excluded.provider, profile = excluded.profile, "
                "source = excluded.source, at = excluded.at "
                "WHERE excluded.source = 'user' OR pins.source = 'auto'",
                row,
            )
            database.execute("DELETE FROM pins WHERE source = 'auto' AND at < ?", (at - _STALE,))

    def unpin(self, thread: str, *, only: Pin | None = None, source: Source | None = None) -> bool:
        """Delete the pin of a thread; return whether there was one.

        With `only` that very pin and no newer one, with `source` a pin of that source.
        """
        if not self.path.exists():
            return False
        query, given = "DELETE FROM pins WHERE thread = ?", [thread]
        if source is not None:
            query, given = f"{query} AND source = ?", [*given, source]
        if only is not None:
            query = f"{query} AND profile = ? AND source = ?"
            given = [*given, only.profile, only.source]
        with self._open() as database, _transaction(database):
            return database.execute(query, given).rowcount > 0

    def forget(self, profile: str) -> None:
        """Delete the health of a profile that is gone, or that has another secret now."""
        with self._open() as database, _transaction(database):
            database.execute("DELETE FROM health WHERE profile = ?", (profile,))
            database.execute("DELETE FROM good WHERE profile = ?", (profile,))

    def _rows(self, query: str, *given: str) -> list[Any]:
        """Return the rows of a query; reading creates no file."""
        if not self.path.exists():
            return []
        with self._open() as database:
            return database.execute(query, given).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as database, sqlite_errors(self.path):
            yield database

    def _connect(self) -> sqlite3.Connection:
        try:
            return _open_database(self.path)
        except StoreCorrupt:
            with hold_lock(self.home / "auth.lock"):
                self._set_aside()
                return _open_database(self.path)

    def _set_aside(self) -> None:
        """Rename a damaged file, unless another process has just done so."""
        try:
            _open_database(self.path).close()
        except StoreCorrupt:
            aside = self.path.with_name(f"{self.path.name}.damaged")
            self.path.replace(aside)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            _log.warning(
                "%r was damaged and is now %r; the order, pins and health of profiles start again "
                "from nothing",
                str(self.path),
                aside.name,
            )


def _open_database(path: Path) -> sqlite3.Connection:
    """Open the database; create it if it is not there."""
    ensure_writable(path)
    with sqlite_errors(path):
        database = connect(path, "mode=rwc", _BUSY_SECONDS)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version < _VERSION:
                start_wal(database, path, _BUSY_SECONDS)
                with _transaction(database):
                    _create_tables(database)
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("SELECT 1 FROM health, orders, good, pins LIMIT 0")
        except sqlite3.OperationalError as error:
            database.close()
            if "no such" in str(error):
                raise StoreCorrupt(f"{str(path)!r} lacks its tables") from error
            raise
        except BaseException:
            database.close()
            raise
    return database


def _create_tables(database: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {_VERSION}")


@contextmanager
def _transaction(database: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    database.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _update_health(
    database: sqlite3.Connection, profile: str, step: Callable[[ProfileHealth], ProfileHealth]
) -> ProfileHealth:
    row = database.execute("SELECT value FROM health WHERE profile = ?", (profile,)).fetchone()
    before = ProfileHealth() if row is None else _health(row[0])
    after = step(before)
    if after != before:
        text = json_bytes(after).decode()
        database.execute("REPLACE INTO health VALUES (?, ?)", (profile, text))
    return after


def _health(text: str) -> ProfileHealth:
    """Return the health in a row; an unreadable row counts as none."""
    try:
        return decode_json(text, ProfileHealth)
    except (*UNREADABLE, TypeError):
        return ProfileHealth()


def _ids(text: str) -> tuple[str, ...]:
    try:
        return decode_json(text, tuple[str, ...])
    except (*UNREADABLE, TypeError):
        return ()


def _pin(thread: str, provider: str, profile: str, source: str) -> Pin:
    return Pin(thread=thread, provider=provider, profile=profile, source=cast("Source", source))
