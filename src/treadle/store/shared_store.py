"""Shared stores: the store and the index of a directory, for all who use them at once.

Owns how many users there are. Invariants: in one event loop, one directory has one store
and one index, so that many threads share a writer, its transactions and its disk; and the
last user closes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from ..core.aio import finish_uncancelled
from .index import SqliteIndex
from .sqlite import SqliteStore

__all__ = ["SharedStore", "open_shared"]


class SharedStore(Struct, frozen=True, eq=False):
    """The store and the index of a directory."""

    store: SqliteStore
    index: SqliteIndex


class _Directory(Struct, eq=False):
    """A directory, its store and index, and the number of their users."""

    path: Path
    users: int = 0
    _shared: SharedStore | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_lost(self) -> bool:
        """Return whether the log was deleted or replaced since it was opened."""
        return self._shared is not None and self._shared.store.is_lost()

    async def open(self) -> SharedStore:
        """Return the store and the index; the first caller opens them."""
        async with self._opening:
            if self._shared is None:
                store = await SqliteStore.open(self.path)
                self._shared = SharedStore(store, SqliteIndex(store, self.path))
            return self._shared

    async def close(self) -> None:
        """Close the files."""
        if self._shared is not None:
            await self._shared.index.close()
            await self._shared.store.close()


_DIRECTORIES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, _Directory]] = (
    WeakKeyDictionary()
)


@asynccontextmanager
async def open_shared(path: Path) -> AsyncIterator[SharedStore]:
    """Open the store and the index in a directory, shared with whoever has them open.

    Raises what `SqliteStore.open` raises.
    """
    directories = _DIRECTORIES.setdefault(asyncio.get_running_loop(), {})
    if not path.is_absolute():
        path = await asyncio.to_thread(path.absolute)
    if (known := directories.get(path)) is not None and await asyncio.to_thread(known.is_lost):
        _remove(known, directories)  # its users hear of it; new ones find what is there now
    directory = directories.setdefault(path, _Directory(path))
    directory.users += 1
    try:
        shared = await directory.open()
        if shared.store.read_only:
            _remove(directory, directories)  # later users may find it writable again
        yield shared
    finally:
        directory.users -= 1
        if not directory.users:
            _remove(directory, directories)
            await finish_uncancelled(directory.close())


def _remove(directory: _Directory, directories: dict[Path, _Directory]) -> None:
    """Make the next user open the directory anew."""
    if directories.get(directory.path) is directory:
        del directories[directory.path]
