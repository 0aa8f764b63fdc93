"""Where threads live: the seam, the store on disk, the one in memory and that in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .contract import Change, ChangeResult, Index, Lease, Store, ThreadInfo, Turn
    from .index import MemoryIndex, SqliteIndex
    from .memory import MemoryStore
    from .postgres.postgres_store import PostgresStore
    from .sqlite import SqliteStore

__all__ = [
    "Change",
    "ChangeResult",
    "Index",
    "Lease",
    "MemoryIndex",
    "MemoryStore",
    "PostgresStore",
    "SqliteIndex",
    "SqliteStore",
    "Store",
    "ThreadInfo",
    "Turn",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "contract": "Change ChangeResult Index Lease Store ThreadInfo Turn",
        "index": "MemoryIndex SqliteIndex",
        "memory": "MemoryStore",
        "postgres.postgres_store": "PostgresStore",
        "sqlite": "SqliteStore",
    },
)
