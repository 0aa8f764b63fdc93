"""Comparing: where two recordings part first, told in the words of a conversation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Difference", "difference"]

_AROUND, _MOST = 120, 1_500
"""Characters that are shown around a difference, and of anything."""


@dataclass(frozen=True)
class Difference:
    """A place in a recording, and what stands there before and now."""

    path: tuple[str | int, ...]
    old: Any
    new: Any
    what: str = ""

    def told(self, recording: dict[str, Any]) -> str:
        """The difference for a person; `recording` is the one before."""
        path = "/".join(map(str, self.path))
        head = ", ".join(filter(None, (_named(self.path, recording), path, self.what)))
        return f"{head}\n  recorded: {_shown(self.old)}\n  now:      {_shown(self.new)}"


def difference(old: Any, new: Any, path: tuple[str | int, ...] = ()) -> Difference | None:
    """The first place where two values differ; None where they are the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _in_objects(old, new, path)
    if isinstance(old, list) and isinstance(new, list):
        return _in_lists(old, new, path)
    if isinstance(old, str) and isinstance(new, str):
        return _in_texts(old, new, path)
    return None if old == new and type(old) is type(new) else Difference(path, old, new)


def _in_objects(
    old: dict[str, Any], new: dict[str, Any], path: tuple[str | int, ...]
) -> Difference | None:
    for key, each in old.items():
        if key in new and (found := difference(each, new[key], (*path, key))):
            return found
    before, now = list(old), list(new)
    if before == now:
        return None
    if set(before) == set(now):
        return Difference(path, before, now, "in another order")
    gone = {key: each for key, each in old.items() if key not in new}
    come = {key: each for key, each in new.items() if key not in old}
    return Difference(path, gone, come, "fields that only one of them has")


def _in_lists(old: list[Any], new: list[Any], path: tuple[str | int, ...]) -> Difference | None:
    for at, (mine, yours) in enumerate(zip(old, new, strict=False)):
        if found := difference(mine, yours, (*path, at)):
            return found
    if len(old) == len(new):
        return None
    counted = f"{len(old)} before and {len(new)} now; those without a pair"
    both = min(len(old), len(new))
    return Difference((*path, both), old[both:], new[both:], counted)


def _in_texts(old: str, new: str, path: tuple[str | int, ...]) -> Difference | None:
    if old == new:
        return None
    pairs = enumerate(zip(old, new, strict=False))
    at = next((at for at, (mine, yours) in pairs if mine != yours), min(len(old), len(new)))
    near = slice(max(0, at - _AROUND), at + _AROUND)
    return Difference(path, old[near], new[near], f"character {at}")


def _named(path: tuple[str | int, ...], recording: dict[str, Any]) -> str:
    """The request, entry or row that a path leads into."""
    match path:
        case ("requests", int(number), *_) if number < len(recording["requests"]):
            return f"request {number + 1} ({recording['requests'][number]['to']})"
        case ("threads", int(number), str(rows), int(row), *_):
            thread = recording["threads"][number]
            known = thread[rows][row] if row < len(thread[rows]) else {}
            told = " ".join(f"{name} {known[name]}" for name in _TELLING if name in known)
            return f"thread {thread['id']} ({rows}: {told or row})"
    return ""


_TELLING = ("number", "seq", "kind", "turn", "step")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)[:_MOST]
