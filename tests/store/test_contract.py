from __future__ import annotations

import pytest

from treadle.store import MemoryStore, SqliteStore
from treadle.testing.contracts import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path):
        async with await SqliteStore.open(tmp_path) as store:
            yield store


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self):
        return MemoryStore()
