"""The contract of a store.

Give a subclass an async fixture `store` that yields a fresh, empty store:

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self):
            yield MyStore(...)

and run it under pytest-asyncio's auto mode. Every sentence of `Store` is a test.
"""

from __future__ import annotations

from .boxes import BoxesContract
from .log import LogContract
from .threads import ThreadsContract

__all__ = ["StoreContract"]


class StoreContract(LogContract, ThreadsContract, BoxesContract):
    """What every `Store` must do. Subclass it and provide the fixture `store`."""
