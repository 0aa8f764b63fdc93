"""Search in all threads, without a trace in the home.

Owns the inspector's own index: a copy of the home's in a temporary directory, brought up to
date there. Invariants: the home is only read; one search at a time brings the copy up to date;
and a search answers within a bounded time with what is indexed by then, and says what is not.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ..core.errors import TreadleError
from ..store.contract import Hit, Search
from ..store.index import SqliteIndex
from ..store.looking import look, open_index
from ..store.thread_names import thread_name
from .inspected_home import Remembered, ShownHome

__all__ = ["ShownRecall"]

PATIENCE = 3.0
"""Seconds that a search waits for what is not indexed yet."""
_MOST = 100
_LONGEST = 400


class ShownRecall:
    """Searches the threads of a home."""

    def __init__(self, home: ShownHome) -> None:
        self._home = home
        self._place: str | None = None
        self._index: SqliteIndex | None = None
        self._opening = asyncio.Lock()
        self._catching_up: asyncio.Task[None] | None = None
        self._names: Remembered[tuple[str, int], str] = Remembered(2_000)

    async def search(self, words: str, thread: str | None, limit: int) -> dict[str, Any]:
        """Return the places that fit best."""
        threads = None
        if thread:
            threads = ((await self._home.thread(thread)).id,)
        if not words.strip():
            return {"hits": [], "note": ""}
        index = await self._own_index()
        note = await self._catch_up(index)
        query = Search(words[:_LONGEST], threads=threads, limit=min(limit, _MOST))
        hits = await index.search(query, catch_up=False)
        found = [await self._hit(hit) for hit in hits]
        return {"hits": found, "note": "; ".join(filter(None, (hits.note, note)))}

    async def _own_index(self) -> SqliteIndex:
        async with self._opening:
            if self._index is None:
                self._place = await asyncio.to_thread(tempfile.mkdtemp, prefix="treadle-web-")
                await asyncio.to_thread(_copy, self._home.known_words, Path(self._place))
                self._index = SqliteIndex(self._home.store, Path(self._place))
            return self._index

    async def _catch_up(self, index: SqliteIndex) -> str:
        """Index what is new; return what to say where that takes longer than one waits."""
        task = self._catching_up
        if task is None or task.done():
            task = self._catching_up = asyncio.create_task(index.catch_up())
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        if not done:
            return "threads are still being indexed; search again for the rest"
        with suppress(TreadleError):
            task.result()
            return ""
        return "not all of the threads could be indexed"

    async def _hit(self, hit: Hit) -> dict[str, Any]:
        name = hit.thread
        with suppress(TreadleError):
            info = await self._home.thread(hit.thread)
            key = info.id, info.updated
            name = self._names.get(key) or self._names.put(
                key, info.title or await thread_name(self._home.store, info)
            )
        return {
            "id": f"{hit.thread}:{hit.seq}",
            "thread": hit.thread,
            "name": name,
            "seq": hit.seq,
            "turn": hit.turn,
            "time": hit.time,
            "role": hit.role,
            "score": hit.score,
            "snippet": hit.snippet,
            "source_id": hit.source_id,
        }

    async def close(self) -> None:
        """Close the copy and delete it."""
        if self._catching_up is not None:
            self._catching_up.cancel()
            with suppress(asyncio.CancelledError, TreadleError):
                await self._catching_up
        if self._index is not None:
            await self._index.close()
        if self._place is not None:
            await asyncio.to_thread(shutil.rmtree, self._place, ignore_errors=True)


def _copy(known: Path, place: Path) -> None:
    """Copy the home's index, where there is one that can be read."""

    def copy(found: sqlite3.Connection) -> None:
        if not found.execute("PRAGMA application_id").fetchone()[0]:
            return  # there is none yet
        with closing(sqlite3.connect(place / "index.db", isolation_level=None)) as made:
            found.backup(made)

    with suppress(TreadleError):
        look(known / "index.db", open_index, copy)
