"""Trees: which records of a branching file are the conversation.

Owns the walk from the newest record to the first. Invariant: the walk ends, also where
a file's parents form a ring or are missing; the path is in the order it was said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

__all__ = ["Branch", "path_to"]


class Branch(Struct):
    """A record of a tree."""

    id: str
    parent: str | None
    position: int
    """Its place in the file's order."""


def path_to(leaf: Branch, order: Sequence[Branch], by_id: Mapping[str, Branch]) -> list[Branch]:
    """The records from the first one to `leaf`.

    A parent that was lost is taken to be the record before in the file.
    """
    path: list[Branch] = []
    seen: set[str] = set()
    at: Branch | None = leaf
    while at is not None and at.id not in seen:
        seen.add(at.id)
        path.append(at)
        if at.parent is None:
            break
        at = by_id.get(at.parent) or (order[at.position - 1] if at.position else None)
    return path[::-1]
