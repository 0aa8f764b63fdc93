"""Injectable items: rows in the shapes that Codex takes into the history of a thread.

Codex drops an item of another type without a word, and refuses a whole injection for one part
or member that it cannot read. Owns what such items and parts are told as. Invariants: an item
that Codex takes stays as it is, byte for byte; of any other the model learns as text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...context.row import Row, shape_of
from ...core.items import encode_item
from ...prompt.announcements import ProviderItem

__all__ = ["INJECTABLE_TYPES", "injectable_row", "refused_position", "told_row"]

INJECTABLE_TYPES = frozenset(
    {
        "agent_message",
        "compaction",
        "compaction_summary",
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
        "image_generation_call",
        "local_shell_call",
        "message",
        "reasoning",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""What 0.163 and 0.166 take; they drop all others."""

_PARTS = {"input_text": "text", "input_image": "image_url", "output_text": "text"}
"""The parts that Codex takes, with the member that they must have."""
_REFUSED = re.compile(r"\bitems\[(\d+)\]")
_HIDDEN = ("id", "encrypted_content", "internal_chat_message_metadata_passthrough")
"""Members that only the provider can read."""


def injectable_row(row: Row) -> Row:
    """Return `row` as Codex takes it."""
    kind = row.shape.type
    if kind not in INJECTABLE_TYPES:
        return told_row(row)
    name = "content" if kind == "message" else "output"
    if kind != "message" and not kind.endswith("_call_output"):
        return row
    members = msgspec.json.decode(row.body)
    parts = members.get(name)
    if not isinstance(parts, list) or all(_is_taken(part) for part in parts):
        return row
    text = "output_text" if row.shape.role == "assistant" else "input_text"
    members[name] = [part if _is_taken(part) else _told_part(part, text) for part in parts]
    return _with_body(row, msgspec.json.encode(members))


def told_row(row: Row) -> Row:
    """Return `row` as text, as a record of what the provider made."""
    members = msgspec.json.decode(row.body)
    shown = {name: each for name, each in members.items() if name not in (*_HIDDEN, "type")}
    told = ProviderItem(kind=row.shape.type, text=msgspec.json.encode(shown).decode())
    return _with_body(row, encode_item(told.message()))


def refused_position(reason: str) -> int | None:
    """Return the position of the item that Codex could not read; None if it names none."""
    found = _REFUSED.search(reason)
    return int(found[1]) if found else None


def _is_taken(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    member = _PARTS.get(str(part.get("type")))
    return member is not None and isinstance(part.get(member), str)


def _told_part(part: Any, kind: str) -> dict[str, str]:
    """Return a part as text: a refusal in its own words, any other by its type and name."""
    members = part if isinstance(part, dict) else {}
    if isinstance(members.get("refusal"), str):
        return {"type": kind, "text": members["refusal"]}
    names = (str(members[each]) for each in ("type", "filename") if members.get(each))
    return {"type": kind, "text": f"[{' '.join(names) or 'unknown'} content omitted]"}


def _with_body(row: Row, body: bytes) -> Row:
    return msgspec.structs.replace(row, body=body, shape=shape_of(body))
