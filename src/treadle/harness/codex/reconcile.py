"""Reconciling the log with Codex's rollout after a process died.

Owns writing to the log what Codex has done and the log does not have. Invariant: items
are identified by their ids, so that no item is written twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence

from msgspec import Raw

from ...context.row import Row, shape_of
from ...core.entries import Entry
from ...core.items import FunctionCallOutput, Message, decode_item, text_of
from ...core.specs import spec_name
from ...log.staging import answer_drafts, staged_outputs
from ...log.thread_log import ThreadLog
from ..contract import TurnRun
from .binding import Binding
from .mirror import Echo, Mirror
from .native_projection import history_items, is_input
from .rollout_reader import RolloutTurn, read_turn
from .steering import mail_input

__all__ = ["reconcile"]

_MOST_ENTRIES = 10_000
"""The number of entries of a turn that are read at most."""
_SUBSTITUTES = ("aborted", "dynamic tool call was cancelled", "dynamic tool request failed")
"""The beginning of results that Codex writes for calls of Treadle's tools without a result."""


async def reconcile(run: TurnRun, binding: Binding, *, compacting: bool = False) -> RolloutTurn:
    """Write to the log what the rollout has of the newest turn on `binding`; return that turn.

    `compacting` says that the process died during a native compaction.
    """
    log = run.log
    found = await asyncio.to_thread(read_turn, binding.path, binding.offset)
    found = found.without_summary() if compacting else found
    if not found.items:
        return found
    turn = await log.store.turn(log.id, binding.turn)
    entries = await log.store.read(log.id, turn.first, limit=_MOST_ENTRIES)
    opening = decode_item(turn.input)
    text = text_of(opening.content) if isinstance(opening, Message) else ""
    mirror = Mirror(log, binding.instructions)
    mirror.seen_ids |= {entry.id for entry in entries if entry.kind == "item" and entry.id}
    mirror.seen_ids |= _injected_ids(log)
    mirror.expected_echoes += await _possible_echoes(log, text)
    waiting = await staged_outputs(log.store, log.id)
    for raw in _without_made_calls(found.items, _made_calls(entries)):
        if (call := _call_without_result(log, raw)) is None:
            result = await mirror.write(raw)
            if result.echo is not None and result.echo.mail is not None:
                await log.take_inbox(result.echo.mail)
        else:
            await log.add(*answer_drafts([call], waiting, log.setup.truncation))
    return found


def _made_calls(entries: Sequence[Entry]) -> set[str]:
    """Return the calls that were made from requests of the server, without an id."""
    shapes = (shape_of(entry.body) for entry in entries if entry.kind == "item" and entry.body)
    return {
        shape.call_id
        for shape in shapes
        if shape.call_id and shape.id is None and shape.type.endswith("_call")
    }


def _without_made_calls(items: Iterable[Raw], made: Container[str]) -> list[Raw]:
    """Return `items` without calls that were `made`, and without the reasoning before them."""
    kept: list[Raw] = []
    for item in items:
        shape = shape_of(item)
        if not (shape.type.endswith("_call") and shape.call_id in made):
            kept.append(item)
            continue
        while kept and shape_of(kept[-1]).type == "reasoning":
            kept.pop()
    return kept


async def _possible_echoes(log: ThreadLog, text: str) -> list[Echo]:
    """Return the inputs of users that may be in the turn: logged ones, and mail that waits."""
    rows = [row.item for row in log.view.rows if is_input(row, log.turn)]
    logged = [Echo(text_of(item.content)) for item in rows if isinstance(item, Message)]
    waiting = [(mail_input(mail, log), mail.number) for mail in await log.inbox()]
    mail = [Echo.of(parts, number) for parts, number in waiting if parts is not None]
    return [*(logged or [Echo(text)]), *mail]


def _call_without_result(log: ThreadLog, raw: Raw) -> Row | None:
    """Return the open call of a Treadle tool for which `raw` is a substitute of Codex."""
    shape, item = shape_of(raw), decode_item(raw)
    if not isinstance(item, FunctionCallOutput):
        return None
    if not text_of(item.output).startswith(_SUBSTITUTES):
        return None
    tools = {spec_name(spec) for spec in log.setup.tools}
    for row in log.view.open_calls:
        if row.shape.call_id == shape.call_id:
            call = row.item
            name = getattr(call, "namespace", None) or getattr(call, "name", None)
            return row if name in tools else None
    return None


def _injected_ids(log: ThreadLog) -> set[str]:
    """Return the ids under which rows of the view were injected."""
    view = log.view
    if view.head is None:
        return set()
    shapes = map(shape_of, history_items(view.rows, view.head, log.id))
    return {shape.id for shape in shapes if shape.id}
