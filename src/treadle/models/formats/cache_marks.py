"""Cache marks on the elements of a body's last list.

Owns how a mark is set in a body that is already written: the element that holds the byte
before an offset is written anew with its mark. Invariant: everything but marked elements
keeps its bytes, and at most `MOST_MARKS` elements are marked, the last ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ...core.wire import json_bytes

__all__ = ["MOST_MARKS", "Element", "ephemeral", "mark_elements"]

MOST_MARKS = 4
"""Marks that a request may have; of more, the last ones are set."""

Element: TypeAlias = dict[str, Raw]

_members = msgspec.json.Decoder(Element)
_elements = msgspec.json.Decoder(list[Raw])


def ephemeral(lifetime: str | None) -> dict[str, str]:
    """Return the value of a `cache_control`."""
    return {"type": "ephemeral"} | ({"ttl": lifetime} if lifetime else {})


def mark_elements(
    body: bytes, name: str, ends: tuple[int, ...], mark: Callable[[Element], Element | None]
) -> bytes:
    """Return `body` with marks in the elements of its list `name`, its last field.

    `mark` returns an element with its mark, None for one that cannot have one.
    """
    listed = bytes(_members.decode(body)[name])
    elements = [bytes(each) for each in _elements.decode(listed)]
    first = len(body) - len(b"}") - len(listed) + len(b"[")
    # Behind each element stands a comma, behind the last one a bracket.
    starts = list(accumulate((len(each) + 1 for each in elements), initial=first))
    meant = {at for end in ends if (at := _position(starts, end)) is not None}
    marked = {at: new for at in meant if (new := mark(_members.decode(elements[at]))) is not None}
    for at in sorted(marked)[-MOST_MARKS:]:
        elements[at] = json_bytes(marked[at])
    return body[:first] + b",".join(elements) + b"]}"


def _position(starts: list[int], end: int) -> int | None:
    """Return which element holds the byte before `end`."""
    at = bisect_left(starts, end) - 1
    return at if 0 <= at < len(starts) - 1 else None
