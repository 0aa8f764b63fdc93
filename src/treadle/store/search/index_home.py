"""`python -m treadle.store.search.index_home`: index a home, for whoever has it open.

Owns one run: all words first, then the vectors if their extra is installed, and no second
process beside it in the same home. It reads an `IndexingOrder` from its input. Invariant: it
ends at once when its input does, that is, also when who started it was killed.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from ...core.typed import decode_json
from ..indexing_beside import IndexesBeside
from ..lease import FileLock
from ..shared_store import index_beside, open_store
from .background import IndexingOrder

__all__ = ["LOCK", "main"]

LOCK = "indexing.lock"
"""Held by the process that indexes a home."""
_NICE = 10
_INPUT = 0
_PIPE = 65_536


def main() -> None:
    """Index what the order on standard input names."""
    order = decode_json(_first_line(), IndexingOrder)
    threading.Thread(target=_end_with_input, daemon=True).start()
    os.nice(_NICE)
    lock = FileLock(Path(order.home) / LOCK)
    if lock.acquire():
        asyncio.run(_index(order))


def _first_line() -> bytes:
    # Unbuffered: a buffer that another thread waits for would be locked when Python ends.
    line = b""
    while not line.endswith(b"\n") and (read := os.read(_INPUT, _PIPE)):
        line += read
    return line


def _end_with_input() -> None:
    while os.read(_INPUT, _PIPE):
        pass
    # A transaction that is cut off here was never there.
    os._exit(0)


async def _index(order: IndexingOrder) -> None:
    home = Path(order.home)
    async with await open_store(home, order.address) as store:
        index = index_beside(store, home)
        await index.catch_up()
        if isinstance(index, IndexesBeside):
            await index.build_vectors()
        await index.close()


if __name__ == "__main__":
    main()
