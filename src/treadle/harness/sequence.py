"""Sequencing: results are durable when their tools end, and stand in call order.

Owns the two places a result can be: staged beside the log while an earlier one is
missing, then in the log. The last of a step is on the disk with the answer to it, for nobody
acts on it before. Invariant: whatever the moment of a crash, each result is in
exactly one of them, and the next writer puts the staged ones where they belong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct, field

from ..core.entries import Entry
from ..log.thread_log import ThreadLog
from ..tools.dispatch import FinishedCall

__all__ = ["Sequencer"]


class Sequencer(Struct):
    """Puts the results of one step into the log."""

    log: ThreadLog
    _waiting: dict[int, FinishedCall] = field(default_factory=dict)
    _next: int = 0
    _open: bool = False
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while results are written: an earlier one must not be overtaken on its way."""

    async def add(self, finished: FinishedCall) -> Sequence[Entry]:
        """Make a result durable; the entries that are in the log now because of it."""
        async with self._writing:
            self._waiting[finished.position] = finished
            if self._open and finished.position == self._next:
                return await self._flush(light=finished.last)
            await self.log.stage_output(finished.item)
            return ()

    async def response_ended(self) -> Sequence[Entry]:
        """From now on results may follow the calls."""
        async with self._writing:
            self._open = True
            return await self._flush()

    async def _flush(self, *, light: bool = False) -> Sequence[Entry]:
        ready = []
        while (finished := self._waiting.pop(self._next, None)) is not None:
            ready.append(finished.item)
            self._next += 1
        return await self.log.append(*ready, light=light) if ready else ()
