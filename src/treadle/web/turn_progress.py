"""What a turn says while it runs, in plain values.

Invariant: what stands in the log is not told a second time, and no piece of it is long.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..harness.events import Event

__all__ = ["event_json"]

_LONGEST = 20_000
"""Characters of a text in an event."""


def event_json(event: Event) -> dict[str, Any]:
    """Return an event in plain values; what it tells of an item stands in the log, too."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    shown = plain
    while shown.get("type") == "agent.reported":
        shown = shown["event"]
    shown.pop("item", None)
    for name, value in shown.items():
        if isinstance(value, str) and len(value) > _LONGEST:
            shown[name] = f"{value[:_LONGEST]}…"
    return plain
