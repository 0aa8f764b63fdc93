"""Pending calls of a thread: staged while a server works on them, settled after a crash.

Owns the outputs that stand for calls whose real outcome somebody else knows. Invariant: the log
gets one output for each call: the real one where it can be had, else the words that were staged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Raw
from msgspec.structs import replace

from ..core.items import CustomToolCallOutput, FunctionCallOutput, decode_item, encode_item
from ..harness.contract import CALL
from ..log.staging import TOPIC, staged_outputs
from ..store.contract import Change, OutboxDraft
from ..tools.contract import ToolResult
from ..tools.dispatch import output_item

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..mcp.contract import OffersServers

__all__ = ["settle_pending", "stage_pending"]


async def stage_pending(log: ThreadLog, result: ToolResult) -> Callable[[], Awaitable[None]]:
    """Make what stands for the present call durable; return what takes it back."""
    output = output_item(CALL.get(), result)
    await log.stage_output(output)

    async def take_back() -> None:
        await log.unstage_output(output)

    return take_back


async def settle_pending(log: ThreadLog, servers: OffersServers) -> None:
    """Ask servers for the outcome of calls that a crash left pending, all at once."""
    from ..mcp.pending import find_task  # only threads with servers have such calls

    waiting = await staged_outputs(log.store, log.id)

    async def settle(key: str, number: int, body: Raw) -> None:
        output = decode_item(body)
        if not isinstance(output, FunctionCallOutput | CustomToolCallOutput):
            return
        task = find_task(output.output) if isinstance(output.output, str) else None
        found = None if task is None else await servers.task_outcome(*task)
        if found is None:
            return
        real = replace(output, output=found.output)
        draft = OutboxDraft(topic=TOPIC, key=key, body=Raw(encode_item(real)), state="ready")
        await log.commit(Change(settle=(number,)))
        await log.commit(Change(outbox=(draft,)))

    await asyncio.gather(*(settle(key, row.number, row.body) for key, row in waiting.items()))
