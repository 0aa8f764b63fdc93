"""Reconciling: what a turn left in Codex's own files when a process died.

Owns bringing the log up to what Codex has done. Invariant: an item is told by its id, so
that what was mirrored before is not mirrored again.
"""

from __future__ import annotations

import asyncio

from msgspec import Raw

from ...context.row import Row, shape_of
from ...core.items import FunctionCallOutput, Message, decode_item, text_of
from ...core.specs import spec_name
from ...log.staging import answers, staged
from ...log.thread_log import ThreadLog
from ..contract import TurnRun
from .attachment import is_input
from .binding import Binding
from .mirror import Echo, Mirror
from .rollout import RolloutTurn, read_turn
from .shown import history_items
from .steering import mail_input

__all__ = ["reconcile"]

_ENTRIES = 10_000
"""No turn is looked at beyond so many entries."""
_NOT_OURS = ("aborted", "dynamic tool call was cancelled", "dynamic tool request failed")
"""How results begin that Codex writes where we have given none."""


async def reconcile(run: TurnRun, binding: Binding, *, folding: bool = False) -> RolloutTurn:
    """Mirror what the rollout holds of the newest turn on `binding`; how that turn ended.

    `folding`: it came to its end in the middle of a native compaction.
    """
    log = run.log
    left = await asyncio.to_thread(read_turn, binding.path, binding.offset)
    left = left.without_summary() if folding else left
    if not left.items:
        return left
    turn = await log.store.turn(log.id, binding.turn)
    entries = await log.store.read(log.id, turn.first, limit=_ENTRIES)
    said = decode_item(turn.input)
    text = text_of(said.content) if isinstance(said, Message) else ""
    mirror = Mirror(log, binding.instructions)
    mirror.seen_ids |= {entry.id for entry in entries if entry.kind == "item" and entry.id}
    mirror.seen_ids |= _ours(run)
    mirror.expected_echoes += await _said(log, text)
    waiting = await staged(log.store, log.id)
    for raw in left.items:
        if (call := _own_call(log, raw)) is None:
            done = await mirror.write(raw)
            if done.echo is not None and done.echo.mail is not None:
                await log.take_inbox(done.echo.mail)
        else:
            await log.add(*answers([call], waiting, log.setup.profile.truncation))
    return left


async def _said(log: ThreadLog, text: str) -> list[Echo]:
    """What people may have said in the turn: the input, what was added to it, what waits still."""
    rows = [row.item for row in log.view.rows if is_input(row, log.turn)]
    logged = [Echo(text_of(item.content)) for item in rows if isinstance(item, Message)]
    waiting = [(mail_input(mail, log), mail.number) for mail in await log.inbox()]
    handed = [Echo.of(parts, number) for parts, number in waiting if parts is not None]
    return [*(logged or [Echo(text)]), *handed]


def _own_call(log: ThreadLog, raw: Raw) -> Row | None:
    """The open call of one of our tools that Codex has answered for us: we know better."""
    shape, item = shape_of(raw), decode_item(raw)
    if not isinstance(item, FunctionCallOutput):
        return None
    if not text_of(item.output).startswith(_NOT_OURS):
        return None
    tools = {spec_name(spec) for spec in log.setup.tools}
    for row in log.view.open_calls:
        if row.shape.call_id == shape.call_id:
            call = row.item
            name = getattr(call, "namespace", None) or getattr(call, "name", None)
            return row if name in tools else None
    return None


def _ours(run: TurnRun) -> set[str]:
    """The ids under which our own rows were injected."""
    view = run.log.view
    if view.head is None:
        return set()
    shapes = map(shape_of, history_items(view.rows, view.head, run.log.id))
    return {shape.id for shape in shapes if shape.id}
