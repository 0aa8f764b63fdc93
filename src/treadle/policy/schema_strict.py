"""Strict schemas: those that OpenAI can hold a model to.

Owns the rules of strict function calling. Invariant: a schema counts as strict only if
every part of it is known to be; what is in doubt is offered permissively, which any
endpoint takes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from ..core.wire import Json
from .schema_flaws import nodes

__all__ = ["is_strict"]

_WORDS = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const"),
        *("anyOf", "$ref", "$defs", "definitions", "title", "description"),
        *("pattern", "format", "multipleOf", "minimum", "maximum"),
        *("exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
    )
)
_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_MOST_LEVELS = 10
_MOST_PROPERTIES = 5_000
_MOST_CHOICES = 1_000


def is_strict(parameters: Json) -> bool:
    """Whether a provider can hold a model to a schema that has no flaw."""
    return _can_be_held(bytes(parameters))


@functools.lru_cache(maxsize=512)
def _can_be_held(data: bytes) -> bool:
    schema = msgspec.json.decode(data)
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    return _is_small(schema) and all(
        # What forbids other properties is no schema of a value.
        node.schema is False or _is_strict_part(node.schema)
        for node in nodes(schema)
    )


def _is_small(schema: dict[str, Any]) -> bool:
    parts = [node for node in nodes(schema) if isinstance(node.schema, dict)]
    properties = sum(len(node.schema.get("properties", ())) for node in parts)
    choices = sum(_choices(node.schema.get("enum")) for node in parts)
    deepest = max(node.depth for node in parts)
    return properties <= _MOST_PROPERTIES and choices <= _MOST_CHOICES and deepest <= _MOST_LEVELS


def _choices(enum: Any) -> int:
    return len(enum) if isinstance(enum, list) else 0


def _is_strict_part(part: Any) -> bool:
    if not isinstance(part, dict) or not _WORDS.issuperset(part):
        return False
    if "$ref" in part:
        return len(part) == 1
    if not all(isinstance(inner, dict) for inner in _inner(part)):
        return False
    if "anyOf" in part:
        return bool(part["anyOf"]) and "type" not in part
    if "type" not in part:
        return "enum" in part or "const" in part
    named = part["type"] if isinstance(part["type"], list) else [part["type"]]
    kinds = {kind for kind in named if isinstance(kind, str)}
    if len(kinds) != len(named) or not kinds or not _TYPES.issuperset(kinds):
        return False
    closed = "object" not in kinds or _is_closed(part)
    return closed and ("array" not in kinds or isinstance(part.get("items"), dict))


def _inner(part: dict[str, Any]) -> Iterator[Any]:
    """The schemas of values in a schema."""
    for word in ("properties", "$defs", "definitions"):
        yield from part.get(word, {}).values()
    yield from part.get("anyOf", ())


def _is_closed(part: dict[str, Any]) -> bool:
    """Whether an object has all of its properties, and no others."""
    properties, required = part.get("properties"), part.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return part.get("additionalProperties") is False and set(required) == set(properties)
