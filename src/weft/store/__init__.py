"""Where threads live: the seam, the store on disk and the one in memory."""

from __future__ import annotations

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
