"""Thinking blocks as reasoning items, and back.

Owns what `encrypted_content` holds for the Messages API: the block as it must be sent
back, as JSON, without the thinking text, which stands readable in `content`.
Invariant: a block that was kept is replayed field for field, text and signature.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from ...core.items import Reasoning, ReasoningText
from ...core.wire import json_bytes

__all__ = ["THINKING", "reasoning_item", "thinking_block"]

THINKING = frozenset(("thinking", "redacted_thinking"))
"""The block types that only their origin may get back."""

_members = msgspec.json.Decoder(dict[str, Raw])


def reasoning_item(block: Mapping[str, object]) -> Reasoning:
    """The item that keeps a thinking block."""
    text = block.get("thinking")
    rest = {name: value for name, value in block.items() if name != "thinking"}
    said = (ReasoningText(text),) if isinstance(text, str) and text else None
    return Reasoning(content=said, encrypted_content=json_bytes(rest).decode())


def thinking_block(item: Reasoning) -> bytes | None:
    """The block that `item` keeps; None when it keeps none that can be sent back."""
    if not item.encrypted_content:
        return None
    try:
        members = _members.decode(item.encrypted_content)
        kind = msgspec.json.decode(members.pop("type"), type=str)
    except (msgspec.DecodeError, KeyError):
        return None
    if kind not in THINKING or (kind == "thinking" and "signature" not in members):
        return None
    opening: dict[str, object] = {"type": kind}
    if kind == "thinking":
        opening["thinking"] = "".join(
            part.text for part in item.content or () if isinstance(part, ReasoningText)
        )
    return json_bytes(opening | members)
