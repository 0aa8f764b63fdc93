"""Schemas: what a model is told about the arguments of a typed function.

Owns how types become JSON schemas. Invariant: the same types always give the same
bytes: names sorted, definitions written out in place, nothing left open.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ..core.wire import Json, json_bytes

__all__ = ["schema_of"]

_REFERENCE = "#/$defs/"
_LAST = ("required", "additionalProperties")


def schema_of(struct: type[msgspec.Struct]) -> Json:
    """The schema of `struct`, which must not contain itself."""
    (top,), definitions = msgspec.json.schema_components([struct])
    return Raw(json_bytes(_written_out(top, definitions, ())))


def _written_out(node: Any, definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(node, list | tuple):
        return [_written_out(each, definitions, within) for each in node]
    if not isinstance(node, dict):
        return node
    if (reference := node.get("$ref")) is not None:
        name = reference.removeprefix(_REFERENCE)
        if name in within:
            raise TypeError(f"{name!r} contains itself; tools take arguments of a fixed shape")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _written_out({**definitions[name], **beside}, definitions, (*within, name))
    return {
        key: _properties(node[key], definitions, within)
        if key == "properties"
        else _written_out(node[key], definitions, within)
        for key in sorted(node, key=_order)
        if not _is_noise(key, node[key])
    }


def _properties(node: dict[str, Any], definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    return {name: _written_out(node[name], definitions, within) for name in sorted(node)}


def _order(key: str) -> tuple[bool, int, str]:
    first = key != "type"
    return (first, _LAST.index(key) + 1 if key in _LAST else 0, key)


def _is_noise(key: str, value: Any) -> bool:
    """Titles repeat names; a default of null says no more than being optional."""
    return (key == "title" and isinstance(value, str)) or (key == "default" and value is None)
