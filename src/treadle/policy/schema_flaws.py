"""Flaws of schemas: what makes a tool's parameters unfit to be offered.

Owns the limits, the words of JSON Schema, and the walk over a schema's parts. Schemas
come from strangers. Invariant: whatever the bytes are, looking at them ends, costs no
more than they are long, and raises nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from ..core.wire import Json, is_nested_deeper

__all__ = ["MOST_BYTES", "MOST_LEVELS", "Flaw", "SchemaNode", "find_part", "look_at", "nodes"]

MOST_BYTES = 256 * 1024
"""A longer schema would fill a window by itself."""

MOST_LEVELS = 64
"""Deeper nesting breaks readers that go down by recursion."""

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
    "contentSchema",
)
_PLAIN = """
$schema $id $anchor $dynamicAnchor $dynamicRef $vocabulary $comment $ref id
type enum const format pattern required title description default examples example
multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength
maxItems minItems uniqueItems maxContains minContains maxProperties minProperties
dependentRequired dependencies contentEncoding contentMediaType
deprecated readOnly writeOnly nullable discriminator
"""
_INDEX = r"[0-9]{1,9}"
_KNOWN = frozenset((*_MAPS, *_LISTS, *_SINGLES, *_PLAIN.split()))


class Flaw(Struct, frozen=True):
    """What is wrong with a schema, in words that continue its name."""

    code: str
    words: str
    fatal: bool = False
    """Whether a request that holds it may be refused, so that the tool must go."""


class SchemaNode(Struct, frozen=True):
    """One schema inside another."""

    schema: Any
    depth: int = 0


def look_at(parameters: Json) -> Flaw | None:
    """The gravest flaw of a schema, if it has one."""
    data = bytes(parameters)
    if len(data) > MOST_BYTES:
        return Flaw("too_large", f"has {len(data)} bytes, more than {MOST_BYTES}", True)
    return _looked_at(data)


# The same tools are offered turn after turn.
@functools.lru_cache(maxsize=512)
def _looked_at(data: bytes) -> Flaw | None:
    if is_nested_deeper(data, MOST_LEVELS):
        return Flaw("too_deep", f"nests deeper than {MOST_LEVELS} levels", True)
    try:
        schema = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Flaw("not_json", "is no JSON", True)
    if not isinstance(schema, dict):
        return Flaw("not_an_object", "is no JSON object", True)
    if schema.get("type", "object") != "object":
        return Flaw("root_type", "describes something else than an object", True)
    return _malformed_flaw(schema) or _reference_flaw(schema) or _unknown(schema)


def nodes(schema: Any) -> Iterator[SchemaNode]:
    """A schema and every schema in it; references are not followed."""
    waiting = [SchemaNode(schema)]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node.schema, dict):
            waiting += [SchemaNode(inner, node.depth + 1) for inner in _parts(node.schema)]


def _parts(schema: dict[str, Any]) -> Iterator[Any]:
    for word, value in schema.items():
        if word in _MAPS and isinstance(value, dict):
            yield from value.values()
        elif (word in _LISTS or word == "items") and isinstance(value, list):
            yield from value
        elif word in _SINGLES:
            yield value


def _malformed_flaw(schema: dict[str, Any]) -> Flaw | None:
    for node in nodes(schema):
        word = _misshapen(node.schema) if isinstance(node.schema, dict) else ""
        if word or not isinstance(node.schema, dict | bool):
            named = f"has {word!r} in a form" if word else "holds a part"
            return Flaw("malformed", f"{named} that is no JSON Schema", True)
    return None


def _misshapen(schema: dict[str, Any]) -> str:
    """The first word whose value cannot be what it must be."""
    for word, value in schema.items():
        if word in _MAPS and not isinstance(value, dict):
            return word
        if word in _LISTS and not isinstance(value, list):
            return word
        if word == "required" and not _are_names(value):
            return word
        if word == "$ref" and not isinstance(value, str):
            return word
    return ""


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _reference_flaw(schema: dict[str, Any]) -> Flaw | None:
    foreign: Flaw | None = None
    sound: set[str] = set()
    for node in nodes(schema):
        ref = node.schema.get("$ref") if isinstance(node.schema, dict) else None
        if ref is None:
            continue
        if not ref.startswith("#"):
            foreign = Flaw("foreign_ref", f"refers to {ref[:80]!r}, which is somewhere else")
        elif (flaw := _follow_reference(schema, ref, sound)) is not None:
            return flaw
    return foreign


def _follow_reference(schema: dict[str, Any], ref: str, sound: set[str]) -> Flaw | None:
    """What is met when a reference is followed to what it finally stands for."""
    seen: set[str] = set()
    while ref.startswith("#") and ref not in sound:
        if ref in seen:
            return Flaw("ref_cycle", f"goes round in circles at {ref[:80]!r}", True)
        seen.add(ref)
        part = find_part(schema, ref)
        if not isinstance(part, dict | bool):
            return Flaw("dangling_ref", f"refers to {ref[:80]!r}, which is not there", True)
        onwards = part.get("$ref") if isinstance(part, dict) else None
        ref = onwards if isinstance(onwards, str) else ""
    sound |= seen
    return None


def find_part(schema: Any, ref: str) -> Any:
    """The part that a local reference names; None where there is none."""
    part = schema
    for step in ref[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict):
            part = part.get(name)
        elif isinstance(part, list) and re.fullmatch(_INDEX, name) and int(name) < len(part):
            part = part[int(name)]
        else:
            return None
    return part


def _unknown(schema: dict[str, Any]) -> Flaw | None:
    words = {
        word
        for node in nodes(schema)
        if isinstance(node.schema, dict)
        for word in node.schema
        if word not in _KNOWN
    }
    if not words:
        return None
    named = ", ".join(repr(word[:40]) for word in sorted(words)[:3])
    return Flaw("unknown_words", f"says {named}, which JSON Schema does not know")
