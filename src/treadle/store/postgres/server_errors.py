"""What the failures of a database server mean.

Owns the translation of SQLSTATE codes, and of what libpq says when it cannot connect. Invariant:
every message names the server without its password, the cause, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...core.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from .database_address import Address
from .driver import psycopg

__all__ = ["is_momentary", "server_errors", "translate_error"]

_KINDS: dict[str, tuple[type[StoreError], str]] = {
    "25006": (StoreReadOnly, "it is a standby or set to read only: name the primary server"),
    "42501": (StoreReadOnly, "its owner can `GRANT` this user what is missing"),
    "53100": (StoreFull, "free some space on the server"),
    "53300": (StoreBusy, "raise `max_connections` of the server, or run fewer workers"),
    "55P03": (StoreBusy, "another process holds the row for long; try again"),
    "57014": (StoreBusy, "the server cancelled it; raise `statement_timeout`, or try again"),
    "22021": (StoreError, "PostgreSQL cannot store such text; take the character out"),
}
_DAMAGED = "check the disk of the server, and restore a backup"

_REFUSED = (
    (
        ("password authentication failed", "no password supplied", "SCRAM", "authentication"),
        "check the user and the password: in the address, in PGPASSWORD, or in ~/.pgpass",
    ),
    (("does not exist",), "create it, for example with `createdb`, or correct the address"),
    (("pg_hba.conf",), "let `pg_hba.conf` of the server allow this user from this host"),
    (("too many", "remaining connection slots"), "raise `max_connections`, or run fewer workers"),
    (("SSL", "certificate"), "see `sslmode` and `sslrootcert` in the address"),
)
"""What libpq says of a connection that the server refused, and what to do; it has no codes."""
_MOMENTARY = ("starting up", "shutting down", "in recovery mode", "recovery state")
_NO_SERVER = "start the server, or correct the address; `treadle doctor` tries it again"


@contextmanager
def server_errors(address: Address) -> Iterator[None]:
    """Raise the driver's errors as ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error, address) from error


def translate_error(error: psycopg.Error, address: Address) -> StoreError:
    """Return what an error of the driver means."""
    said = _first_line(error)
    code = error.sqlstate or ""
    if code in _KINDS:
        kind, remedy = _KINDS[code]
        return kind(f"{address.shown!r} refused it ({said}); {remedy}")
    if code.startswith("XX"):
        return StoreCorrupt(f"{address.shown!r} is damaged ({said}); {_DAMAGED}")
    if isinstance(error, psycopg.DataError) and "NUL" in said:
        return StoreError(
            "a text holds the character NUL, which PostgreSQL cannot store; take it out"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return _unreachable(said, address)
    return StoreError(
        f"{address.shown!r} failed ({said}); this is a defect of Treadle or of the database: "
        "`treadle doctor` looks at it"
    )


def is_momentary(error: psycopg.Error) -> bool:
    """Return whether a refused connection may be accepted in a moment."""
    said = str(error)
    if any(words in said for words in _MOMENTARY):
        return True
    return not any(words in said for known, _ in _REFUSED for words in known)


def _unreachable(said: str, address: Address) -> StoreError:
    for known, remedy in _REFUSED:
        if any(words in said for words in known):
            return StoreUnreachable(f"{address.shown!r} refused the connection ({said}); {remedy}")
    return StoreUnreachable(f"{address.shown!r} cannot be reached ({said}); {_NO_SERVER}")


def _first_line(error: psycopg.Error) -> str:
    """Return what is said, on one line. libpq tells of each address that it tried."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "FATAL" in line), lines[0] if lines else "")
    return said.removeprefix("connection failed: ") or type(error).__name__
