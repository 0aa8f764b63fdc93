"""Remains: the files and processes that a run left.

Owns the rows about databases, secrets and orphans. Secrets are looked for in the bytes of
every file and, since SQLite may part a value over pages, in every value of every table.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from ...core.errors import StoreError
from ...store.database import open_reader
from ...store.queries import find_damaged
from .evidence import Evidence
from .findings import Finding, Report

__all__ = ["audit_files", "audit_processes", "processes_marked"]

_MAGIC = b"SQLite format 3\x00"
_PROBLEMS = 5
"""How many problems of one database are reported."""


def audit_files(evidence: Evidence) -> Report:
    """Return damaged databases and files that hold secrets."""
    findings: list[Finding] = []
    paths = sorted(_files(evidence))
    databases = [path for path in paths if _is_database(path)]
    for path in paths:
        findings += _leaks(path, path in databases, evidence)
    for path in databases:
        findings += [Finding("damaged", str(path), each) for each in _problems(path)]
    return Report.of(findings, files=len(paths), databases=len(databases))


def audit_processes(mark: str) -> Report:
    """Return the processes that still run."""
    found = processes_marked(mark) if mark else []
    return Report.of(Finding("orphans", str(pid), command) for pid, command in found)


def processes_marked(mark: str) -> list[tuple[int, str]]:
    """Return the ids and commands of other running processes that carry `mark`."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        if int(place.name) in (os.getpid(), os.getppid()):
            continue
        with suppress(OSError):
            command = (place / "cmdline").read_bytes()
            carried = command + (place / "environ").read_bytes()
            carried += os.fsencode(place.joinpath("cwd").readlink())
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if mark.encode() in carried and state != "Z":
                found.append((int(place.name), command.replace(b"\0", b" ").decode()[:200]))
    return found


def _files(evidence: Evidence) -> Iterator[Path]:
    for directory in (*evidence.homes, *evidence.files):
        yield from (path for path in directory.rglob("*") if path.is_file())


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _open_read_only(path: Path) -> sqlite3.Connection:
    # The last one to close a database that was opened for writing would tidy it up.
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _problems(path: Path) -> list[str]:
    try:
        with closing(_open_read_only(path)) as database:
            rows = [str(row[0]) for row in database.execute("PRAGMA integrity_check")]
            rows += [f"foreign key: {row}" for row in database.execute("PRAGMA foreign_key_check")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    found = [] if rows == ["ok"] else rows
    return [*found, *_damaged_entries(path)][:_PROBLEMS]


def _damaged_entries(path: Path) -> list[str]:
    if path.name != "log.db":
        return []
    with suppress(StoreError), closing(open_reader(path)) as log:
        return [f"not as it was written: {name}" for name in find_damaged(log)]
    return []  # no log of ours


def _leaks(path: Path, is_database: bool, evidence: Evidence) -> Iterator[Finding]:
    needles = {secret.encode() for secret in evidence.secrets}
    held = path.read_bytes()
    found = {needle for needle in needles if needle in held}
    if is_database:
        found |= _in_values(path, needles - found)
    foreign = any(part in str(path) for part in evidence.foreign)
    row = "foreign_secrets" if foreign else "secrets"
    for needle in sorted(found):
        yield Finding(row, str(path), f"holds {needle.decode()[:12]!r}…")


def _in_values(path: Path, needles: set[bytes]) -> set[bytes]:
    found: set[bytes] = set()
    with suppress(sqlite3.DatabaseError), closing(_open_read_only(path)) as database:
        database.text_factory = bytes
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in tables:
            quoted = name.decode().replace('"', '""')
            with suppress(sqlite3.DatabaseError):
                for values in database.execute(f'SELECT * FROM "{quoted}"'):
                    held = b"\0".join(each for each in values if isinstance(each, bytes))
                    found |= {needle for needle in needles if needle in held}
    return found
