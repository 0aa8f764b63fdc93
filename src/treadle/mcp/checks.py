"""Checks of structured results against the schemas that servers gave for them.

Owns when such a schema is followed at all. Invariant: a schema that could keep us busy for long,
by parts that refer to each other, is not followed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.wire import Json
from ..policy.answer_schema import find_misfit
from ..policy.schema_flaws import find_part

__all__ = ["misfit_note"]

_MOST_PARTS = 10_000


def misfit_note(text: str, schema: Json) -> str:
    """Return a sentence when a result does not fit its schema; empty where it does."""
    root = msgspec.json.decode(schema)
    if _size(root, root, set(), {}) > _MOST_PARTS:
        return ""
    try:
        misfit = find_misfit(text, schema)
    except Exception:  # noqa: BLE001 - a schema that is none says nothing about a result
        return ""
    return f"[this does not fit the schema that the server gave for it: {misfit}]" if misfit else ""


def _size(part: Any, root: Any, above: set[int], known: dict[int, int]) -> int:
    """Return how many parts there are with all references followed; too many for a cycle."""
    if not isinstance(part, dict | list):
        return 1
    if id(part) in above:
        return _MOST_PARTS + 1
    if id(part) not in known:
        above.add(id(part))
        inner = list(part.values()) if isinstance(part, dict) else part
        total = 1
        for each in inner:
            total += _size(each, root, above, known)
        if isinstance(part, dict) and isinstance(ref := part.get("$ref"), str):
            total += _size(find_part(root, ref), root, above, known)
        above.discard(id(part))
        known[id(part)] = min(total, _MOST_PARTS + 1)
    return known[id(part)]
