"""Staging: outputs that are durable before their place in the log is free.

Owns the rows in which a tool's output waits while an earlier call of its step still
runs. Invariant: an output is staged or in the log, never both and never neither; what a
crash left staged goes to the call it answers, in call order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Raw

from ..context.compose import item_draft
from ..context.row import Row
from ..context.rules import OUTCOME_UNKNOWN, synthetic_output
from ..core.entries import Draft
from ..core.items import CustomToolCallOutput, FunctionCallOutput, decode_item, encode_item
from ..core.text import TruncationPolicy
from ..store.contract import OutboxDraft, OutboxRow, Store

__all__ = ["TOPIC", "ToolOutput", "answer_drafts", "staged_numbers", "staged_outputs", "staged_row"]

TOPIC = "output"
"""The outbox topic of staged outputs."""

ToolOutput: TypeAlias = FunctionCallOutput | CustomToolCallOutput


def staged_row(output: ToolOutput, turn: int, step: int) -> OutboxDraft:
    """The row in which `output` waits."""
    key = _key(turn, step, output.call_id)
    return OutboxDraft(topic=TOPIC, key=key, body=Raw(encode_item(output)), state="ready")


async def staged_outputs(store: Store, thread: str) -> dict[str, OutboxRow]:
    """What waits, by the call it answers."""
    return {row.key: row for row in await store.outbox(thread=thread, topic=TOPIC)}


def staged_numbers(
    outputs: Iterable[object], turn: int, step: int, rows: Mapping[str, OutboxRow]
) -> tuple[int, ...]:
    """The rows of those `outputs` that waited."""
    keys = {_key(turn, step, getattr(output, "call_id", None)) for output in outputs}
    return tuple(row.number for key, row in rows.items() if key in keys)


def answer_drafts(
    calls: Sequence[Row], rows: Mapping[str, OutboxRow], limit: TruncationPolicy
) -> tuple[Draft, ...]:
    """One output for each call that a crash left open: the staged one, else "unknown"."""
    drafts = []
    for call in calls:
        row = rows.get(_key(call.turn, call.step, call.shape.call_id))
        output = synthetic_output(call, OUTCOME_UNKNOWN) if row is None else decode_item(row.body)
        drafts.append(item_draft(output, turn=call.turn, step=call.step, limit=limit))
    return tuple(drafts)


def _key(turn: int, step: int, call_id: str | None) -> str:
    return f"{turn}.{step}.{call_id or ''}"
