"""Visible turns: where a thread that is being written can be rolled back to.

Owns the start of every turn that no rollback hides, kept up to date entry by entry.
Invariant: a rollback costs no more than the turns that it hides, and its cut is the one that
`turn_start` would find in the log.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field

from ..context.visible import visible_backwards
from ..core.entries import Draft, Flags
from ..store.contract import Store

__all__ = ["VisibleTurns"]

_FIRST = 2
"""The entry after the notice that opens an imported thread."""


@dataclass(slots=True)
class _Turn:
    number: int
    start: int
    has_items: bool = False
    inputs: set[bool] = field(default_factory=set)
    """Whether what opened it is volatile."""

    @property
    def is_known(self) -> bool:
        """Whether people know of it; one that only an announcement opened goes unseen."""
        return self.has_items and self.inputs != {True}


@dataclass(slots=True)
class VisibleTurns:
    """The turns of one thread that can be rolled back, oldest first."""

    _turns: list[_Turn] = field(default_factory=list)

    @classmethod
    async def load(cls, store: Store, thread: str) -> VisibleTurns:
        """Return those of a thread in the log."""
        async with aclosing(visible_backwards(store, thread)) as found:
            entries = [entry async for entry in found]
        turns = cls()
        for entry in reversed(entries):
            turns.add(entry, entry.seq)
        return turns

    def add(self, draft: Draft, seq: int) -> None:
        """Take in the next entry."""
        if not draft.turn or draft.kind == "rollback":
            return
        if not self._turns or self._turns[-1].number != draft.turn:
            self._turns.append(_Turn(draft.turn, seq))
        turn = self._turns[-1]
        if draft.kind == "item":
            turn.has_items = True
            if draft.step == 0 and not draft.flags & Flags.CONTEXTUAL:
                turn.inputs.add(bool(draft.flags & Flags.VOLATILE))

    def roll_back(self, turns: int) -> int:
        """Forget the last `turns`; return the first entry that they hide.

        A turn that nobody asked for goes with the one before it. A rollback of more than
        there is hides everything.
        """
        cut = _FIRST
        while self._turns and turns:
            turn = self._turns.pop()
            cut = turn.start
            turns -= turn.is_known
        return _FIRST if turns else cut
