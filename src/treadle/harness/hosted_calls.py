"""Calls that a provider ran itself, shown as calls.

Owns which items are such calls. Invariant: nothing is run or answered for them; hosts hear of
a search as they hear of one that Codex made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ..core.items import Item, Unknown, WebSearchCall, encode_action
from ..core.typed import decode_json
from ..core.wire import UNREADABLE, json_bytes
from .events import Event, ToolFinished, ToolStarted

__all__ = ["hosted_call", "hosted_call_events"]

_SEARCH = "web_search"


class _ServerToolUse(Struct):
    id: str = ""
    name: str = ""
    input: Any = None


def hosted_call_events(item: Item) -> Iterator[Event]:
    """Yield what hosts hear of a call that the provider ran; nothing for other items."""
    found = hosted_call(item)
    if found is not None:
        call, name, arguments = found
        yield ToolStarted(call_id=call, name=name, arguments=arguments)
        yield ToolFinished(call_id=call, name=name, success=True, seconds=0.0, output="")


def hosted_call(item: Item) -> tuple[str, str, str] | None:
    """Return the id, the name and the arguments of a call that the provider ran."""
    if isinstance(item, WebSearchCall):
        return item.id or _SEARCH, _SEARCH, json_bytes(_action(item)).decode()
    if isinstance(item, Unknown) and item.type == "server_tool_use":
        try:
            use = decode_json(item.payload, _ServerToolUse)
        except UNREADABLE:
            return None
        return use.id or use.name, use.name, json_bytes(use.input or {}).decode()
    return None


def _action(item: WebSearchCall) -> dict[str, object]:
    """Return what was searched for or opened, without what nobody said."""
    told = {} if item.action is None else decode_json(encode_action(item.action), dict[str, Any])
    return {name: value for name, value in told.items() if value and name != "type"}
