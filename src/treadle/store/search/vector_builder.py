"""The vector builder: gives vectors to the user's and the assistant's text.

Owns which texts get one, and how a long text is cut. It reads what the word index has already
covered. Invariants: nobody waits for it; it goes on where it was, whoever ended it.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ...core.entries import Entry
from ...core.errors import NotFound
from ..contract import Progress, Store, ThreadInfo
from ..index_tables import find_thread_number
from ..rows import row_id
from .clues import speaker_prefix
from .documents import entry_text
from .tables import RunJob, indexed_threads
from .vector_model import VectorModel, load_model
from .vectors import KeptVector, add_vectors, thread_progress

__all__ = ["VectorBuilder"]

_SLICE = 500
"""Entries whose vectors are kept in one transaction."""
_ROLES = frozenset({"user", "assistant"})
_PIECE = 480
_MOST_PIECES = 3
"""Of a long text its beginning gets vectors: so many, each of so many characters."""
_PIECES = re.compile(rf".{{1,{_PIECE}}}(?:\s|$)|.{{{_PIECE}}}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class VectorBuilder:
    """Builds the vectors of one index."""

    read_index: RunJob
    write_index: RunJob
    store: Store

    async def build(self, *, progress: Progress | None = None) -> None:
        """Give a vector to every text that lacks one, those of the newest threads first."""
        model = await asyncio.to_thread(load_model)
        if model is None:
            return
        behind = await self._behind()
        total, done = sum(upto - after for _, after, upto in behind), 0
        for info, after, upto in behind:
            try:
                for first in range(after + 1, upto + 1, _SLICE):
                    last = min(first + _SLICE - 1, upto)
                    await self._add(model, info.id, first, last, after=max(after, first - 1))
                    done += last - first + 1
                    if progress is not None:
                        progress(done, total)
            except NotFound:  # deleted meanwhile
                done += upto - after

    async def _behind(self) -> list[tuple[ThreadInfo, int, int]]:
        """Return the threads that lack vectors, and after and up to which of their entries."""
        words, vectors = await self.read_index(
            lambda db: (indexed_threads(db), thread_progress(db))
        )
        found = []
        for info in await self.store.threads():
            upto = min(words.get(info.id, 0), info.last)
            after = max(vectors.get(info.id, 0), info.cut)
            if after < upto:
                found.append((info, after, upto))
        return found

    async def _add(
        self, model: VectorModel, thread: str, first: int, last: int, *, after: int
    ) -> None:
        entries = await self.store.read(thread, first, last)
        texts = [(each.seq, piece) for each in entries for piece in _pieces(each)]
        codes = await asyncio.to_thread(model.codes, [text for _, text in texts]) if texts else []

        def keep(db: sqlite3.Connection) -> None:
            number = find_thread_number(db, thread)
            made = [
                KeptVector(row_id(number, seq), code)
                for (seq, _), code in zip(texts, codes, strict=True)
            ]
            add_vectors(db, number, made, after=after, upto=last)

        await self.write_index(keep)


def _pieces(entry: Entry) -> Iterator[str]:
    """Yield the parts of an entry's text that get a vector."""
    text = entry_text(entry)
    if text.role in _ROLES and text.text.strip():
        # Who speaks is not what is spoken of.
        said = text.text[: _PIECE * (_MOST_PIECES + 1)].removeprefix(speaker_prefix(text.text))
        yield from islice(map(str.strip, _PIECES.findall(said)), _MOST_PIECES)
