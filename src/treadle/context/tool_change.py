"""Changes of tools: what of which server came, went or became another.

Owns the words beside an epoch whose reason is `tools`. Invariant: a pure function of two heads;
it speaks of tools of MCP servers only, for those change without anybody here deciding it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.entries import Head
from ..core.specs import SPECS, FunctionTool
from ..core.wire import Json

__all__ = ["describe_tool_change"]

_PREFIX = "mcp__"
_NAMED = 5


def describe_tool_change(before: Head | None, now: Head) -> str:
    """Return which tools of which servers were added, removed and changed; empty for none."""
    old, new = _by_name(before.tools if before else ()), _by_name(now.tools)
    changes: dict[str, dict[str, list[str]]] = {}
    for full in sorted({*old, *new}):
        if old.get(full) == new.get(full):
            continue
        server, _, tool = full.removeprefix(_PREFIX).partition("__")
        what = "added" if full not in old else "removed" if full not in new else "changed"
        changes.setdefault(server, {}).setdefault(what, []).append(tool)
    return "; ".join(
        f"{server}: {', '.join(f'{what} {_listed(tools)}' for what, tools in each.items())}"
        for server, each in changes.items()
    )


def _by_name(tools: Iterable[Json]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for encoded in tools:
        if f'"name":"{_PREFIX}'.encode() not in bytes(encoded):
            continue
        spec = SPECS.decode(encoded)
        if isinstance(spec, FunctionTool) and spec.name.startswith(_PREFIX):
            found[spec.name] = bytes(encoded)
    return found


def _listed(tools: list[str]) -> str:
    more = f" and {len(tools) - _NAMED} more" if len(tools) > _NAMED else ""
    return f"{len(tools)} ({', '.join(tools[:_NAMED])}{more})"
