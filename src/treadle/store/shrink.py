"""Giving the free pages of a database back to the disk.

Owns when that is worth it. Invariant: a database that somebody uses is left as it is.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ..core.errors import StoreBusy
from .database import connect, sqlite_errors

__all__ = ["free_bytes", "shrink"]

_BUSY_SECONDS = 1.0
_WORTH_IT = 1 << 20


def free_bytes(path: Path) -> int:
    """Return how many bytes of a database nothing is stored in. Raises `StoreError`."""
    if not path.exists():
        return 0
    with sqlite_errors(path), closing(connect(path, "mode=ro", _BUSY_SECONDS)) as connection:
        free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("freelist_count", "page_size")
        )
    return int(free * size)


def shrink(path: Path) -> int | None:
    """Write a database anew without its free pages; return the bytes that were freed.

    None where it is in use. Raises `StoreError`.
    """
    if free_bytes(path) < _WORTH_IT:
        return 0
    before = path.stat().st_size
    try:
        with sqlite_errors(path), closing(connect(path, "mode=rw", _BUSY_SECONDS)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except StoreBusy:
        return None
    return max(before - path.stat().st_size, 0)
