"""One PostgreSQL server for all tests of a session, and an empty database for each test.

The first test that needs the server starts it. The workers of a session share it, and it ends
when the process that started them is gone. Each worker has a database, which is emptied between
its tests: that takes a millisecond, and a database of its own for each test would take fifty.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from treadle.testing.postgres import PostgresServer

__all__ = ["empty_database", "postgres_server", "postgres_url", "share_server"]

_SESSION = "TESTS_POSTGRES"
"""The variable with the process that ends last, and the file that says where the server is."""
_TABLES = (
    *(f"treadle.{name}" for name in ("outbox", "inbox", "turns", "entries", "blob_users")),
    *("treadle.blobs", "treadle.origins", "treadle.threads"),
    *("treadle_index.segments", "treadle_index.requests", "treadle_index.threads"),
)

_started: list[PostgresServer] = []
"""Kept for good: what ends the server is the end of the session."""


def share_server(directory: str) -> None:
    """Note where a server will be told of; call it in the process that starts the workers."""
    os.environ[_SESSION] = f"{os.getpid()}:{directory}/postgres"


@cache
def _port() -> int:
    owner, _, named = os.environ[_SESSION].partition(":")
    file = Path(named)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            _started.append(PostgresServer(owner=int(owner)))
            file.write_text(str(_started[0].port))
        return int(file.read_text())


def _address(database: str) -> str:
    return f"postgresql://treadle@127.0.0.1:{_port()}/{database}"


@cache
def _database() -> str:
    """Return the address of this worker's database."""
    name = f"tests_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    import psycopg

    with psycopg.connect(_address("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return _address(name)


@pytest.fixture
def postgres_url() -> str:
    """The address of a database with nothing in it but, perhaps, our empty tables."""
    url = _database()
    empty_database(url)
    return url


def empty_database(url: str) -> None:
    """Delete all that is in our tables."""
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT to_regnamespace('treadle') IS NOT NULL").fetchone()
        if found == (True,):
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table}")


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    """A server of the module's own, for tests that stop it."""
    server = PostgresServer()
    yield server
    server.close()
