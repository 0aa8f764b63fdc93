"""Bounding: results that are too long for the log, kept whole beside it.

Owns what becomes of a tool's text beyond what is recorded of it. Invariant: whatever the
log cuts out of a result can be read back under a handle that stands in the result.
"""

from __future__ import annotations

import msgspec

from ..core.text import TruncationPolicy
from .contract import ToolContext, ToolResult
from .excerpt import HeadTail
from .keeping import Keeper
from .reporting import body

__all__ = ["bounded"]

_SLACK = 1.2
"""Results that are cut already may be longer by so much: their headings."""


async def bounded(result: ToolResult, context: ToolContext) -> ToolResult:
    """`result` as it fits the log; a longer text is kept whole and cut in the middle."""
    if context.room is None or not isinstance(result.output, str):
        return result
    data = result.output.encode(errors="replace")
    if len(data) <= context.room * _SLACK:
        return result
    keeper, ends = Keeper(context.kept), HeadTail()
    await keeper.add(data)
    ends.add(data)
    text = await body(ends.take(whole=True), TruncationPolicy("bytes", context.room), keeper)
    return msgspec.structs.replace(result, output=text)
