"""Copies: a backup of the log and the library that belong together.

Owns the order and the names. Invariants: the library is copied first, so that all it
names is in the copy of the log; a copy is whole or not there, and never replaces a file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from ....core.errors import StoreError, StoreReadOnly
from ....store.database import connect, sqlite_errors

__all__ = ["Copied", "back_up"]


class Copied(Struct, frozen=True):
    """A file that was copied."""

    path: str
    size: int


def back_up(home: Path, destination: Path, files: tuple[str, ...]) -> list[Copied]:
    """Copy `files` of a home to a new directory, in this order, while others write them.

    What is copied later is not older than what was copied before. Files that are not there
    are left out. Raises `StoreError` when the directory exists or cannot be written.
    """
    if destination.exists():
        raise StoreError(f"{str(destination)!r} exists; name a directory that does not")
    unfinished = destination.with_name(f".{destination.name}.unfinished-{os.getpid()}")
    try:
        unfinished.mkdir(mode=0o700, parents=True)
        there = [name for name in files if (home / name).exists()]
        for name in there:
            _copy(home / name, unfinished / name)
        unfinished.rename(destination)
    except OSError as error:
        raise StoreReadOnly(
            f"no backup could be written to {str(destination)!r} ({error.strerror}); "
            "name another place"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return [Copied(name, (destination / name).stat().st_size) for name in there]


def _copy(source: Path, target: Path) -> None:
    """One snapshot of a database, as one file."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        sqlite_errors(source),
        closing(connect(source, "mode=ro")) as here,
        closing(sqlite3.connect(target, isolation_level=None)) as there,
    ):
        here.backup(there)
    with target.open("rb") as file:
        os.fsync(file.fileno())
