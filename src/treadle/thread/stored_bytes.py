"""The bytes that a thread stores, under their digests.

Owns what tools see of the store. Invariant: whoever has a digest gets the bytes that it was
made of.
"""

from __future__ import annotations

from msgspec import Struct

from ..store.contract import Store

__all__ = ["StoredBytes"]


class StoredBytes(Struct):
    """The bytes a thread keeps, under their digests."""

    store: Store
    thread: str

    async def put(self, data: bytes) -> str:
        """Keep `data`; return its digest."""
        return await self.store.put_blob(self.thread, data)

    async def get(self, handle: str) -> bytes:
        """Return the bytes under `handle`."""
        return await self.store.blob(handle)
