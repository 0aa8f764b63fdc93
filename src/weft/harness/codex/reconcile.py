"""Reconciling: what a turn left in Codex's own files when a process died.

Owns bringing the log up to what Codex has done. Invariant: an item is told by its id, so
that what was mirrored before is not mirrored again.
"""

from __future__ import annotations

import asyncio

from ...context.row import shape_of
from ...items import Message, decode_item, text_of
from ..contract import TurnRun
from .binding import Binding
from .mirror import Echo, Mirror
from .rollout import Left, left_since
from .shown import items_of

__all__ = ["reconcile"]

_ENTRIES = 10_000
"""No turn is looked at beyond so many entries."""


async def reconcile(run: TurnRun, binding: Binding) -> Left:
    """Mirror what the rollout holds of the newest turn on `binding`; how that turn ended."""
    journal = run.journal
    left = await asyncio.to_thread(left_since, binding.path, binding.offset)
    if not left.items:
        return left
    turn = await journal.store.turn(journal.id, binding.turn)
    entries = await journal.store.read(journal.id, turn.first, limit=_ENTRIES)
    said = decode_item(turn.input)
    text = text_of(said.content) if isinstance(said, Message) else ""
    mirror = Mirror(journal, binding.instructions)
    mirror.seen |= {entry.id for entry in entries if entry.kind == "item" and entry.id}
    mirror.seen |= _ours(run)
    mirror.expected.append(Echo(text))
    for raw in left.items:
        await mirror.take(raw)
    return left


def _ours(run: TurnRun) -> set[str]:
    """The ids under which our own rows were injected."""
    view = run.journal.view
    if view.head is None:
        return set()
    shapes = map(shape_of, items_of(view.rows, view.head, run.journal.id))
    return {shape.id for shape in shapes if shape.id}
