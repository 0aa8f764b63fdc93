"""Where threads live: the seam, the store on disk and the one in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import deferred

if TYPE_CHECKING:
    from .contract import Change, Committed, Index, Lease, Store, ThreadInfo, Turn
    from .index import MemoryIndex, SqliteIndex
    from .memory import MemoryStore
    from .sqlite import SqliteStore

__all__ = [
    "Change",
    "Committed",
    "Index",
    "Lease",
    "MemoryIndex",
    "MemoryStore",
    "SqliteIndex",
    "SqliteStore",
    "Store",
    "ThreadInfo",
    "Turn",
]

__getattr__ = deferred(
    __name__,
    {
        "contract": "Change Committed Index Lease Store ThreadInfo Turn",
        "index": "MemoryIndex SqliteIndex",
        "memory": "MemoryStore",
        "sqlite": "SqliteStore",
    },
)
