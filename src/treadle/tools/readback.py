"""`read_output`: what was cut out of a result, read back.

Owns the way a model walks through kept output: by bytes, or by lines that match.
Invariant: every byte that was kept can be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ..core.errors import NotFound
from ..core.specs import FunctionTool, parameters
from ..core.text import BYTES_PER_TOKEN, TruncationPolicy
from .arguments import BadArguments, read_arguments
from .contract import ToolCall, ToolContext, ToolResult

if TYPE_CHECKING:
    from .keeping import KeptOutput

__all__ = ["ReadOutput"]

_DEFAULT_LIMIT = 16_000
_LONGEST_LINE = 1_000


class _Read(Struct, forbid_unknown_fields=True):
    handle: str
    offset: int = 0
    limit: int = _DEFAULT_LIMIT
    pattern: str | None = None


class ReadOutput:
    """Reads kept output back."""

    parallel = True
    replay_safe = True

    def __init__(self, policy: TruncationPolicy) -> None:
        self._most = policy.token_budget * BYTES_PER_TOKEN
        self.spec = FunctionTool(
            name="read_output",
            description="Reads the full output of an earlier command whose result names a "
            "handle: some bytes of it, or the lines that match a pattern.",
            parameters=parameters(
                {
                    "handle": {
                        "type": "string",
                        "description": "The handle after `Full output:`.",
                    },
                    "offset": {
                        "type": "number",
                        "description": "The first byte to look at; a negative one counts from "
                        "the end. 0 by default.",
                    },
                    "limit": {
                        "type": "number",
                        "description": "How many bytes to return; 16000 by default.",
                    },
                    "pattern": {
                        "type": "string",
                        "description": "Text to look for: only lines that contain it are "
                        "returned, each after the byte it starts at. `*` stands for any text, "
                        "`|` parts alternatives.",
                    },
                },
                required=("handle",),
            ),
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Read a stretch, or search."""
        try:
            asked = read_arguments(call.name, call.arguments, _Read)
            return ToolResult(await self._told(asked, context))
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        except NotFound as error:
            return ToolResult(f"{call.name} failed: {error}", success=False)

    async def _told(self, asked: _Read, context: ToolContext) -> str:
        from .keeping import open_kept

        output = await open_kept(context.kept, asked.handle)
        limit = min(max(asked.limit, 1), self._most)
        start = asked.offset if asked.offset >= 0 else output.size + asked.offset
        start = min(max(start, 0), output.size)
        if asked.pattern is None:
            return await _stretch(context, output, start, limit)
        return await _matches(context, output, asked.pattern, start, limit)


async def _stretch(context: ToolContext, output: KeptOutput, start: int, limit: int) -> str:
    from .excerpt import looks_binary
    from .keeping import read_range

    data = await read_range(context.kept, output, start, limit)
    if looks_binary(data):
        # Three characters show one byte.
        data = data[: max(limit // 3, 1)]
        shown = data.hex(" ")
    else:
        shown = data.decode(errors="replace")
    return f"Bytes {start} to {start + len(data)} of {_size(output)}\n{shown}"


async def _matches(
    context: ToolContext, output: KeptOutput, pattern: str, start: int, limit: int
) -> str:
    from .keeping import search

    lines: list[str] = []
    room = limit
    more = ""
    found = search(context.kept, output, pattern, start=start, longest=_LONGEST_LINE)
    async for match in found:
        line = f"{match.offset}: {match.line}"
        if room < len(line.encode()):
            more = f"\nMore matches from byte {match.offset} on"
            break
        room -= len(line.encode()) + 1
        lines.append(line)
    heading = f"{len(lines)} matching lines in {_size(output)}"
    return "\n".join([heading, *lines]) + more


def _size(output: KeptOutput) -> str:
    lost = f" ({output.dropped} more were not kept)" if output.dropped else ""
    return f"{output.size} bytes{lost}"
