"""Homes: the store and the index of a directory, for all who are at home there.

Owns how many hold them. Invariants: in one event loop, one directory has one store and one
index, so that many threads share a writer, its transactions and its disk; and the last to
give them back closes them.
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

__all__ = ["Kept", "at_home"]


class Kept(Struct, frozen=True, eq=False):
    """What a directory keeps."""

    store: SqliteStore
    index: SqliteIndex


class _Home(Struct, eq=False):
    """A directory, and who holds what it keeps."""

    directory: Path
    holders: int = 0
    _kept: Kept | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def opened(self) -> Kept:
        """Its store and its index; the first to ask opens them."""
        async with self._opening:
            if self._kept is None:
                store = await SqliteStore.open(self.directory)
                self._kept = Kept(store, SqliteIndex(store, self.directory))
            return self._kept

    async def close(self) -> None:
        """Let go of the files."""
        if self._kept is not None:
            await self._kept.index.close()
            await self._kept.store.close()


_HOMES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, _Home]] = WeakKeyDictionary()


@asynccontextmanager
async def at_home(directory: Path) -> AsyncIterator[Kept]:
    """The store and the index in `directory`, shared with whoever has them open.

    Raises what `SqliteStore.open` raises.
    """
    homes = _HOMES.setdefault(asyncio.get_running_loop(), {})
    if not directory.is_absolute():
        directory = await asyncio.to_thread(directory.absolute)
    home = homes.setdefault(directory, _Home(directory))
    home.holders += 1
    try:
        kept = await home.opened()
        if kept.store.read_only:
            _hide(home, homes)  # whoever comes later may find it writable again
        yield kept
    finally:
        home.holders -= 1
        if not home.holders:
            _hide(home, homes)
            await finish_uncancelled(home.close())


def _hide(home: _Home, homes: dict[Path, _Home]) -> None:
    """Let those who come open the directory anew."""
    if homes.get(home.directory) is home:
        del homes[home.directory]
