"""What the inspector reads of a home.

Owns the store and the index as they are looked at, and what is remembered between requests.
Invariant: looking takes no lease and writes nothing, and what is remembered is bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from ..config.settings import Price
from ..core.errors import NotFound
from ..models.catalog import Catalog
from ..prompt.registry import installed_registry
from ..store.contract import (
    FindsKinds,
    Index,
    LedgerRow,
    MeasuresThreads,
    Store,
    ThreadInfo,
)
from ..store.looking import LookingIndex, LookingStore
from ..store.pages import PagesLog, PagesRequests

if TYPE_CHECKING:
    from ..prompt.registry import Registry

__all__ = ["Remembered", "SharedDatabase", "ShownHome", "ShownIndex", "ShownStore"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@runtime_checkable
class ShownStore(Store, PagesLog, FindsKinds, MeasuresThreads, Protocol):
    """A store that can be read a page at a time."""


@runtime_checkable
class ShownIndex(Index, PagesRequests, Protocol):
    """An index whose ledger can be read a page at a time."""


class SharedDatabase(Struct, frozen=True):
    """A database with threads, which somebody else opens and closes."""

    store: ShownStore
    index: ShownIndex
    directory: Path
    """Where this machine keeps what it has indexed of them."""


class Remembered(Generic[K, V]):
    """The values that were used last; the oldest are forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what is remembered under `key`."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """Remember a value, and return it."""
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
        return value


class ShownHome:
    """A home that is shown; call `close` at the end."""

    def __init__(
        self,
        path: Path,
        *,
        prices: Mapping[str, Price] | None = None,
        catalog: Callable[[], Catalog] | None = None,
        database: SharedDatabase | None = None,
    ) -> None:
        self.path = path
        self.prices = prices or {}
        """The user's own prices."""
        self.database = database
        """Where the threads are, if they are not in files of the home."""
        if database is None:
            store = LookingStore(path)
            self.store: ShownStore = store
            self.index: ShownIndex = LookingIndex(store, path)
        else:
            self.store, self.index = database.store, database.index
        self._find_catalog = catalog
        self._catalog: Catalog | None = None
        self._registry: Registry | None = None

    async def registry(self) -> Registry:
        """Return the fragments that are installed."""
        if self._registry is None:
            self._registry = await asyncio.to_thread(installed_registry)
        return self._registry

    async def catalog(self) -> Catalog:
        """Return the known models."""
        if self._catalog is None:
            found = self._find_catalog or (lambda: Catalog.load(self.path / "models.toml"))
            self._catalog = await asyncio.to_thread(found)
        return self._catalog

    async def thread(self, name: str) -> ThreadInfo:
        """Return the thread with that id."""
        return await self.store.info(name)

    async def request(self, thread: str, number: int) -> LedgerRow:
        """Return a request of a thread by its number. Raises `NotFound`."""
        rows = await self.index.request_page(thread, number, number)
        if not rows:
            raise NotFound("request", number, "`/ledger` lists those that there are")
        return rows[0]

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that change with every change of a thread; none where a database has them."""
        return () if self.database else (self.path / "log.db", self.path / "index.db")

    @property
    def known_words(self) -> Path:
        """Where the index of words may be, which searching begins with."""
        return self.path if self.database is None else self.database.directory

    async def close(self) -> None:
        """Close what was opened here."""
        if self.database is None:
            await self.index.close()
            await self.store.close()
