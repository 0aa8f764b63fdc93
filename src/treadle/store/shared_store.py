"""Shared stores: the store and the index of one place, for all who use them at once.

Owns how many users there are, and which index belongs to which store. Invariants: in one event
loop, a directory or a database has one store and one index, so that many threads share a writer,
its transactions and its disk; and the last user closes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from ..core.aio import finish_uncancelled
from ..core.store_address import index_directory
from .contract import Index, Store
from .index import SqliteIndex
from .sqlite import SqliteStore

if TYPE_CHECKING:
    from .postgres.database_index import PostgresIndex
    from .postgres.postgres_store import PostgresStore

__all__ = ["SharedStore", "index_beside", "open_shared", "open_store"]


class SharedStore(Struct, frozen=True, eq=False):
    """The store and the index of one place."""

    store: SqliteStore | PostgresStore
    index: Index


_Place: TypeAlias = "tuple[Path, str | None]"
"""A home, and the address of a database where the threads are not in the home."""


class _Open(Struct, eq=False):
    """A place, its store and index, and the number of their users."""

    place: _Place
    users: int = 0
    _shared: SharedStore | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_lost(self) -> bool:
        """Return whether the log was deleted or replaced since it was opened."""
        store = None if self._shared is None else self._shared.store
        return isinstance(store, SqliteStore) and store.is_lost()

    async def open(self) -> SharedStore:
        """Return the store and the index; the first caller opens them."""
        async with self._opening:
            if self._shared is None:
                store = await open_store(*self.place)
                index = index_beside(store, self.place[0])
                if not store.read_only:
                    index.begin_indexing(*self.place)
                self._shared = SharedStore(store, index)
            return self._shared

    async def close(self) -> None:
        """Close the files."""
        if self._shared is not None:
            await self._shared.index.close()
            await self._shared.store.close()


_OPEN: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Place, _Open]] = WeakKeyDictionary()


@asynccontextmanager
async def open_shared(path: Path, address: str | None = None) -> AsyncIterator[SharedStore]:
    """Open the store and the index of a home, shared with whoever has them open.

    With `address` the threads are in that database, and the home has only the index. Raises what
    `SqliteStore.open` and `PostgresStore.open` raise.
    """
    places = _OPEN.setdefault(asyncio.get_running_loop(), {})
    if not path.is_absolute():
        path = await asyncio.to_thread(path.absolute)
    place = path, address
    if (known := places.get(place)) is not None and await asyncio.to_thread(known.is_lost):
        _remove(known, places)  # its users hear of it; new ones find what is there now
    opened = places.setdefault(place, _Open(place))
    opened.users += 1
    try:
        shared = await opened.open()
        if shared.store.read_only:
            _remove(opened, places)  # later users may find it writable again
        yield shared
    finally:
        opened.users -= 1
        if not opened.users:
            _remove(opened, places)
            await finish_uncancelled(opened.close())


def _remove(opened: _Open, places: dict[_Place, _Open]) -> None:
    """Make the next user open the place anew."""
    if places.get(opened.place) is opened:
        del places[opened.place]


async def open_store(home: Path, address: str | None) -> SqliteStore | PostgresStore:
    """Open the store of a home, or the database where its threads are."""
    if address is None:
        return await SqliteStore.open(home)
    from .postgres.postgres_store import PostgresStore

    return await PostgresStore.open(address)


def index_beside(store: Store, home: Path | None) -> SqliteIndex | PostgresIndex:
    """Return a new index for the threads of a store; without a home it is in memory."""
    if not hasattr(store, "connections"):  # nothing else is worth loading a driver for
        return SqliteIndex(store, home)
    from .postgres.database_index import PostgresIndex
    from .postgres.postgres_store import PostgresStore

    assert isinstance(store, PostgresStore), "no other store of ours has connections"
    return PostgresIndex(store, None if home is None else index_directory(home, store.where.url))
