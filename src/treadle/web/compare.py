"""Two threads side by side: what they share, then their own turns.

Owns where two threads part. Invariant: what is called shared is one and the same part of the
log, not text that happens to be alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ..store.contract import Span
from .inspected_home import ShownHome
from .thread_list import ShownThreads
from .turn_views import ShownTurns

__all__ = ["ShownComparisons"]

_MOST_TURNS = 100


class ShownComparisons:
    """Compares threads."""

    def __init__(self, home: ShownHome, threads: ShownThreads, turns: ShownTurns) -> None:
        self._home, self._threads, self._turns = home, threads, turns

    async def compare(self, first: str, second: str) -> dict[str, Any]:
        """Return what two threads have in common, and the newest turns of both."""
        a, b = await asyncio.gather(self._home.thread(first), self._home.thread(second))
        lineages = await asyncio.gather(
            self._home.store.lineage(a.id), self._home.store.lineage(b.id)
        )
        seq = _shared_upto(*lineages)
        pages = await asyncio.gather(
            self._turns.page(a.id, None, _MOST_TURNS, answers=True),
            self._turns.page(b.id, None, _MOST_TURNS, answers=True),
        )
        told = await asyncio.gather(self._threads.thread(a), self._threads.thread(b))
        names = ("turns", "requests", "sent", "shared", "input_tokens", "cached_tokens", "cost")
        return {
            "common": await self._common(a.id, seq),
            "a": pages[0]["turns"],
            "b": pages[1]["turns"],
            "totals": {
                side: {name: each[name] for name in names}
                for side, each in zip(("a", "b"), told, strict=True)
            },
        }

    async def _common(self, thread: str, seq: int) -> dict[str, Any] | None:
        """Return the last entry that both have, and the last turn that is complete in it."""
        if not seq:
            return None
        found = await self._home.store.read(thread, seq, seq + 1)
        turn = found[0].turn if found else 0
        # A cut inside of a turn leaves a part of it on each side.
        inside = len(found) > 1 and found[1].turn == turn and turn > 0
        return {"seq": seq, "turn": turn - 1 if inside else turn}


def _shared_upto(one: Sequence[Span], other: Sequence[Span]) -> int:
    """Return the last entry that two lineages have in common."""
    shared = 0
    for ours, theirs in zip(one, other, strict=False):
        if (ours.thread, ours.first) != (theirs.thread, theirs.first):
            break
        shared = min(ours.last, theirs.last)
        if ours.last != theirs.last:
            break
    return shared
