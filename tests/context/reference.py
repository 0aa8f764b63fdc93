"""The view by its definition: slow, plain, and written without the code it checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.context.view import View
from treadle.core.entries import Entry, Epoch, Inline, Node, Range, Rollback
from treadle.store.contract import Store

__all__ = ["assert_paired", "expected_bodies", "shown_items", "visible"]


def shown_items(view: View) -> list[bytes]:
    return [row.body for row in view.rows]


def visible(entries: Sequence[Entry]) -> list[Entry]:
    """After a rollback, what was visible before its cut is visible again, and the rollback."""
    states: list[list[Entry]] = [[]]
    for entry in entries:
        control = entry.control if entry.kind == "rollback" else None
        before = states[control.cut - 1] if isinstance(control, Rollback) else states[-1]
        states.append([*before, entry])
    return states[-1]


async def expected_bodies(store: Store, thread: str) -> list[bytes]:
    """The items of the newest visible recipe, then every visible item after it."""
    entries = await store.read(thread)
    seen = visible(entries)
    bodies: list[bytes] = []
    for entry in seen:
        if entry.kind == "item":
            bodies.append(entry.body)
        elif isinstance(entry.control, Epoch) and entry.control.recipe is not None:
            bodies = await _cooked(store, entries, entry.control)
    return bodies


async def _cooked(store: Store, entries: Sequence[Entry], epoch: Epoch) -> list[bytes]:
    assert epoch.recipe is not None
    bodies: list[bytes] = []
    for part in epoch.recipe.parts:
        if isinstance(part, Range):
            inside = entries[part.first - 1 : part.last]
            bodies += [entry.body for entry in inside if entry.kind == "item"]
        elif isinstance(part, Node):
            bodies.append(await store.blob(part.blob))
        elif isinstance(part, Inline):
            bodies.append(bytes(part.body))
    return bodies


_CALLS = {
    "function_call": "function",
    "local_shell_call": "function",
    "custom_tool_call": "custom",
    "tool_search_call": "search",
}
_OUTPUTS = {
    "function_call_output": "function",
    "custom_tool_call_output": "custom",
    "tool_search_output": "search",
}


def assert_paired(sent: Sequence[dict[str, Any]]) -> None:
    """Every call is followed by exactly one output, and every output follows its call."""
    waiting: set[tuple[str, str]] = set()
    for item in sent:
        kind = item.get("type")
        if item.get("execution") == "server":
            continue
        if kind in _CALLS:
            key = _CALLS[kind], str(item.get("call_id") or item.get("id"))
            assert key not in waiting, f"{key} is called twice"
            waiting.add(key)
        elif kind in _OUTPUTS and item.get("call_id") is not None:
            key = _OUTPUTS[kind], item["call_id"]
            assert key in waiting, f"{key} is answered without a call"
            waiting.remove(key)
    assert not waiting, f"{waiting} lack an output"
