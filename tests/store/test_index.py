from __future__ import annotations

import pytest

from weft.store import MemoryIndex, MemoryStore, SqliteIndex, SqliteStore
from weft.testing.contracts import IndexContract


class TestSqliteIndex(IndexContract):
    @pytest.fixture
    async def store(self, tmp_path):
        async with await SqliteStore.open(tmp_path) as store:
            yield store

    @pytest.fixture
    async def index(self, store, tmp_path):
        index = SqliteIndex(store, tmp_path)
        yield index
        await index.close()


class TestMemoryIndex(IndexContract):
    @pytest.fixture
    async def store(self):
        return MemoryStore()

    @pytest.fixture
    async def index(self, store):
        index = MemoryIndex(store)
        yield index
        await index.close()
