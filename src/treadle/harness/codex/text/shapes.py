"""Shapes: what a value is made of, without what it says.

Owns the form in which a call's input is told where its values must stay unsaid.
Invariant: keys are sorted, depth and breadth are bounded, and no leaf is told.
"""

from __future__ import annotations

from typing import Any

__all__ = ["json_shape"]

_DEEPEST, _BROADEST, _LONGEST_KEY = 6, 32, 64
_MORE = "…"


def json_shape(value: object, depth: int = 0) -> Any:
    """The shape of a decoded JSON value."""
    match value:
        case None:
            return "[null]"
        case bool():
            return "[boolean]"
        case int() | float():
            return "[number]"
        case dict():
            return _object(value, depth) if depth < _DEEPEST else "[object]"
        case list() | tuple():
            return _array(value, depth) if depth < _DEEPEST else "[array]"
        case _:
            return "[string]"


def _object(members: dict[Any, Any], depth: int) -> dict[str, Any]:
    names = sorted(map(str, members))
    shown = {key[:_LONGEST_KEY]: json_shape(members[key], depth + 1) for key in names[:_BROADEST]}
    return {**shown, **({_MORE: _rest(members)} if len(names) > _BROADEST else {})}


def _array(elements: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    shown = [json_shape(element, depth + 1) for element in elements[:_BROADEST]]
    return [*shown, *([_rest(elements)] if len(elements) > _BROADEST else [])]


def _rest(values: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> str:
    return f"[{len(values) - _BROADEST} more]"
