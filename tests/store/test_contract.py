from __future__ import annotations

import pytest

from treadle.store import MemoryStore, SqliteStore
from treadle.store.postgres import PostgresStore
from treadle.testing.contracts import StoreContract, WorkContract

from .postgres_wires import SharedWire, parted


class TestSqliteStore(StoreContract, WorkContract):
    @pytest.fixture
    async def store(self, tmp_path):
        async with await SqliteStore.open(tmp_path) as store:
            yield store


class TestMemoryStore(StoreContract, WorkContract):
    @pytest.fixture
    async def store(self):
        return MemoryStore()


class TestPostgresStore(StoreContract, WorkContract):
    @pytest.fixture
    async def store(self, postgres_url):
        async with await PostgresStore.open(postgres_url) as store:
            yield store


class TestPostgresStoreBehindAPooler(StoreContract, WorkContract):
    @pytest.fixture
    async def store(self, postgres_url):
        address, database = parted(postgres_url)
        with SharedWire(int(address.rpartition(":")[2]), database) as wire:
            through = f"{address.rpartition(':')[0]}:{wire.port}/{database}"
            async with await PostgresStore.open(through) as store:
                assert store.facts.lease == "heartbeat"
                yield store
