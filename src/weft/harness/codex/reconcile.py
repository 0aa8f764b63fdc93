"""Reconciling: what a turn left in Codex's own files when a process died.

Owns bringing the log up to what Codex has done. Invariant: an item is told by its id, so
that what was mirrored before is not mirrored again.
"""

from __future__ import annotations

import asyncio

from msgspec import Raw

from ...context.journal import Journal
from ...context.row import Row, shape_of
from ...context.staging import answers, staged
from ...items import FunctionCallOutput, Message, decode_item, text_of
from ...specs import spec_name
from ..contract import TurnRun
from .binding import Binding
from .mirror import Echo, Mirror
from .rollout import Left, left_since
from .shown import items_of

__all__ = ["reconcile"]

_ENTRIES = 10_000
"""No turn is looked at beyond so many entries."""
_NOT_OURS = ("aborted", "dynamic tool call was cancelled", "dynamic tool request failed")
"""How results begin that Codex writes where we have given none."""


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
    waiting = await staged(journal.store, journal.id)
    for raw in left.items:
        if (call := _own_call(journal, raw)) is None:
            await mirror.take(raw)
        else:
            await journal.add(*answers([call], waiting, journal.profile.truncation))
    return left


def _own_call(journal: Journal, raw: Raw) -> Row | None:
    """The open call of one of our tools that Codex has answered for us: we know better."""
    shape, item = shape_of(raw), decode_item(raw)
    if not isinstance(item, FunctionCallOutput):
        return None
    if not text_of(item.output).startswith(_NOT_OURS):
        return None
    tools = {spec_name(spec) for spec in journal.tools}
    for row in journal.view.open_calls:
        if row.shape.call_id == shape.call_id:
            call = row.item
            name = getattr(call, "namespace", None) or getattr(call, "name", None)
            return row if name in tools else None
    return None


def _ours(run: TurnRun) -> set[str]:
    """The ids under which our own rows were injected."""
    view = run.journal.view
    if view.head is None:
        return set()
    shapes = map(shape_of, items_of(view.rows, view.head, run.journal.id))
    return {shape.id for shape in shapes if shape.id}
