"""Readers: questions to the log, away from the event loop.

Owns a few read-only connections and the threads they run on. Invariant: each
question sees one snapshot, and neither waits for the writer nor delays it.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ..core.errors import StoreClosed
from .database import open_reader, sqlite_errors

__all__ = ["READERS", "Readers"]

T = TypeVar("T")

READERS = 4
"""How many questions are answered at once."""


class Readers:
    """Answers questions on connections of their own, opened when first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="treadle-reader")

    async def run(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """The answer of `ask`, from one snapshot."""
        loop = asyncio.get_running_loop()
        try:
            answer = loop.run_in_executor(self._pool, self._answer, ask)
        except RuntimeError as error:  # the pool was shut down
            raise StoreClosed(f"{str(self._path)!r} was closed; open the store again") from error
        return await answer

    def close(self) -> None:
        """Finish the questions that were asked, then close the connections. Blocks."""
        self._pool.shutdown()
        while not self._idle.empty():
            self._idle.get().close()

    def _answer(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._take()
        try:
            with sqlite_errors(self._path):
                connection.execute("BEGIN")
                try:
                    return ask(connection)
                finally:
                    if connection.in_transaction:
                        connection.execute("COMMIT")
        finally:
            self._idle.put(connection)

    def _take(self) -> sqlite3.Connection:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return open_reader(self._path)
