"""The contract of a store: every sentence of `Store`, as a test."""

from __future__ import annotations

from .store_boxes import BoxesContract
from .store_log import LogContract
from .store_threads import ThreadsContract

__all__ = ["StoreContract"]


class StoreContract(LogContract, ThreadsContract, BoxesContract):
    """What every `Store` must do.

    Give a subclass an async fixture `store` that yields a fresh, empty store:

        class TestMyStore(StoreContract):
            @pytest.fixture
            async def store(self, tmp_path):
                store = await MyStore.open(tmp_path)
                yield store
                await store.close()

    and run it under pytest-asyncio's auto mode.
    """
