"""Found tools: which tools searches have found, read from the log.

Owns how they are recognised in items. Because they come from the log, no compaction can lose
them. Invariant: a pure function of the rows; the newest are kept, and only so many.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw

from ..core.found_text import SEARCH_TOOL, split_found
from ..core.items import FunctionCall, FunctionCallOutput, text_of
from ..core.typed import decode_json
from ..core.wire import NULL, Json, json_bytes
from ..prompt.mcp_servers import CALL_TOOL, FoundTool, FoundToolsState
from ..prompt.state_fragment import Known
from .row import Row
from .view import View

__all__ = ["found_tools_snapshot", "read_found_tools"]

_MOST = 16


def found_tools_snapshot(view: View, keep_from: int) -> Json | None:
    """The found tools at a boundary, for the fragment that tells them; None when there are none."""
    told = view.baselines.get(FoundToolsState.id)
    snapshot = told.snapshot if isinstance(told, Known) else NULL
    before = decode_json(snapshot, tuple[FoundTool, ...] | None) or ()
    found = read_found_tools(view.rows[:keep_from], before)
    return Raw(json_bytes(found)) if found else None


def read_found_tools(
    rows: Iterable[Row], before: Iterable[FoundTool] = ()
) -> tuple[FoundTool, ...]:
    """The tools that were found `before` and in `rows`; those used last come last."""
    known = {tool.name: tool for tool in before}
    searches: set[str] = set()
    for row in rows:
        if row.shape.type not in ("function_call", "function_call_output"):
            continue
        match row.item:
            case FunctionCall(name=name, call_id=call_id) if name == SEARCH_TOOL:
                searches.add(call_id)
            case FunctionCall(name=name, arguments=arguments) if name == CALL_TOOL:
                for used in [each for each in known if f'"{each}"' in arguments]:
                    known[used] = known.pop(used)
            case FunctionCallOutput(call_id=call_id, output=output) if call_id in searches:
                for found, told in split_found(text_of(output)):
                    known.pop(found, None)
                    known[found] = FoundTool(found, told)
    return tuple(known.values())[-_MOST:]
