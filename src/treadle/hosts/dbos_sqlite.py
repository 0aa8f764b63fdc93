"""The SQLite database of DBOS, where SQLite is older than DBOS expects.

Owns one function of SQL. From Python 3.12 on DBOS stamps its rows with `unixepoch('subsec')`,
which SQLite knows since 3.42; older ones say NULL, and every insertion fails. Invariant: nothing
is changed where SQLite knows it, and nothing else of DBOS is.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

__all__ = ["engine_options"]

_KNOWN_SINCE = (3, 42)


def engine_options(database: str) -> dict[str, Any]:
    """Return the options with which DBOS is to open a database."""
    if not database.startswith("sqlite") or sqlite3.sqlite_version_info >= _KNOWN_SINCE:
        return {}
    return {"connect_args": {"factory": _TimedConnection}}


class _TimedConnection(sqlite3.Connection):
    """Knows what time it is, in parts of a second."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.create_function("unixepoch", 1, _epoch)


def _epoch(when: object) -> float | None:
    """Return the seconds since 1970, of now; of other times this function is not asked."""
    return time.time() if when in {"now", "subsec"} else None
