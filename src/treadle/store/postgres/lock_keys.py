"""The numbers of advisory locks.

Owns how a name becomes the 64 bits that PostgreSQL locks. Invariant: a name keeps its number in
all versions, else two of them could write one thread.
"""

from __future__ import annotations

import hashlib

__all__ = ["lock_key", "lock_parts"]


def lock_key(kind: str, name: str) -> int:
    """Return the number of a lock, with a sign."""
    digest = hashlib.sha256(f"treadle:{kind}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def lock_parts(key: int) -> tuple[int, int]:
    """Return the two halves under which `pg_locks` shows a lock."""
    bits = key & 0xFFFF_FFFF_FFFF_FFFF
    return bits >> 32, bits & 0xFFFF_FFFF
