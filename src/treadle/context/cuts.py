"""Cuts: where a log may be rolled back or forked.

Owns the search for turn and step boundaries in the visible log. Invariant: a cut
never parts a call from its result; one asked for inside a step moves to its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

from ..core.entries import Entry, Flags
from ..core.errors import IllegalCut
from ..prompt.registry import Registry
from ..store.contract import Store
from .rules import nearest_legal_cut
from .view import load_view
from .visible import visible_backwards

__all__ = ["step_boundary", "turn_start"]

_PAGE = 256


async def turn_start(store: Store, thread: str, turns: int) -> int:
    """The first entry of the last `turns` visible turns.

    A turn that nobody asked for goes with the one before it.
    """
    if turns < 1:
        raise IllegalCut(f"cannot roll back {turns} turns; ask for at least one")
    seen: dict[int, set[bool]] = {}
    start = 0
    async with aclosing(visible_backwards(store, thread)) as entries:
        async for entry in entries:
            # Only items make a turn: notes about one outlive its rollback.
            if entry.kind == "item" and entry.turn:
                if entry.turn not in seen and _visible_turns(seen) == turns:
                    return start
                _note_input(seen.setdefault(entry.turn, set()), entry)
            if entry.turn in seen:
                start = entry.seq
    if (visible := _visible_turns(seen)) < turns:
        raise IllegalCut(
            f"thread {thread!r} has {visible} turns that can be rolled back, not {turns}; "
            "`treadle show` lists what is left"
        )
    return start


def _note_input(inputs: set[bool], entry: Entry) -> None:
    """Note whether what opened a turn is volatile."""
    if entry.step == 0 and not entry.has_flag(Flags.CONTEXTUAL):
        inputs.add(entry.has_flag(Flags.VOLATILE))


def _visible_turns(turns: Mapping[int, set[bool]]) -> int:
    """How many turns people know of: one that only an announcement opened goes unseen."""
    return sum(inputs != {True} for inputs in turns.values())


async def step_boundary(store: Store, thread: str, registry: Registry, seq: int) -> int:
    """The last entry to keep when `seq` should be: itself, or the end of the step before."""
    last = (await store.info(thread)).last
    if not 0 <= seq <= last:
        raise IllegalCut(f"thread {thread!r} has no entry {seq}; choose one from 0 to {last}")
    end = await _end_of_step(store, thread, seq, last)
    rows = (await load_view(store, thread, registry, upto=end)).rows
    index = sum(row.seq is None or row.seq <= seq for row in rows)
    legal = nearest_legal_cut(rows, index)
    first_left_out = rows[legal].seq if legal < index else None
    return seq if first_left_out is None else first_left_out - 1


async def _end_of_step(store: Store, thread: str, seq: int, last: int) -> int:
    """The last entry of the step that `seq` belongs to."""
    if seq == 0:
        return 0
    (entry,) = await store.read(thread, seq, seq)
    end = seq
    while end < last:
        page = await store.read(thread, end + 1, last, limit=_PAGE)
        for follower in page:
            # A rollback belongs to the step it was made in, and would hide what is looked for.
            same = (follower.turn, follower.step) == (entry.turn, entry.step)
            if not same or follower.kind == "rollback":
                return end
            end = follower.seq
    return end
