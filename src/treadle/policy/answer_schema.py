"""Answers and their schema: whether a schema can be asked for, and an answer fits it.

Owns which words of JSON Schema are checked; a word that is not checked forbids nothing.
Invariant: whatever the bytes are, looking at them ends and raises nothing but `InvalidOption`
for a schema that is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ..core.errors import InvalidOption
from ..core.wire import Json, is_nested_deeper, json_bytes
from .schema_flaws import MOST_LEVELS, find_part, look_at, nodes

__all__ = ["answer_schema", "find_misfit"]


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": _is_whole,
}
_LONGEST_SHOWN = 60
_DEEPEST = 200
"""References followed one inside the other; a schema that needs more is left unchecked."""


def answer_schema(schema: Json | Mapping[str, Any]) -> Json:
    """Return a schema as it is sent. Raises `InvalidOption` for one that is none."""
    if isinstance(schema, Mapping):
        try:
            schema = Json(json_bytes(dict(schema)))
        except (TypeError, ValueError) as error:
            raise InvalidOption(f"the schema is no JSON: {error}; use plain values") from error
    elif not isinstance(schema, Json):
        raise InvalidOption(f"{schema!r} is no schema; give a dictionary")
    flaw = look_at(schema)
    if flaw is not None and flaw.fatal:
        raise InvalidOption(f"the schema {flaw.words}; correct it")
    for node in nodes(msgspec.json.decode(schema)):
        kinds = node.schema.get("type", ()) if isinstance(node.schema, dict) else ()
        for kind in (kinds,) if isinstance(kinds, str) else kinds:
            if kind not in _TYPES:
                known = ", ".join(map(repr, _TYPES))
                raise InvalidOption(f"the schema has the type {kind!r}; there are {known}")
    return schema


def find_misfit(text: str, schema: Json) -> str:
    """Return why an answer does not fit its schema; empty where it does."""
    data = text.encode(errors="replace")
    if is_nested_deeper(data, MOST_LEVELS):
        return f"it nests deeper than {MOST_LEVELS} levels"
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it is no JSON: {error}"
    root = msgspec.json.decode(schema)
    return next(_misfits(value, root, root, "the answer", 0), "")


def _misfits(value: Any, schema: Any, root: Any, where: str, depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{where} must not be there"
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#"):
        yield from _misfits(value, find_part(root, ref), root, where, depth + 1)
    yield from _plain_misfits(value, schema, where)
    yield from _bound_misfits(value, schema, where)
    yield from _joined_misfits(value, schema, root, where, depth)
    if isinstance(value, dict):
        yield from _object_misfits(value, schema, root, where, depth)
    if isinstance(value, list):
        yield from _array_misfits(value, schema, root, where, depth)


def _plain_misfits(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    kinds = schema.get("type")
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        yield f"{where} is {_json_text(value)}, and not of type {' or '.join(kinds)}"
    if "enum" in schema and not any(_is_same(value, each) for each in schema["enum"]):
        yield f"{where} is {_json_text(value)}, which is none of {_json_text(schema['enum'])}"
    if "const" in schema and not _is_same(value, schema["const"]):
        yield f"{where} is {_json_text(value)}, and not {_json_text(schema['const'])}"


_BOUNDS: tuple[tuple[str, type | tuple[type, ...], Callable[[Any, Any], bool], str], ...] = (
    ("minLength", str, lambda value, most: len(value) >= most, "is shorter than"),
    ("maxLength", str, lambda value, most: len(value) <= most, "is longer than"),
    ("minItems", list, lambda value, most: len(value) >= most, "has fewer items than"),
    ("maxItems", list, lambda value, most: len(value) <= most, "has more items than"),
    ("minimum", (int, float), lambda value, most: value >= most, "is less than"),
    ("maximum", (int, float), lambda value, most: value <= most, "is more than"),
    ("exclusiveMinimum", (int, float), lambda value, most: value > most, "is not more than"),
    ("exclusiveMaximum", (int, float), lambda value, most: value < most, "is not less than"),
)


def _bound_misfits(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    for word, kind, holds, words in _BOUNDS:
        bound = schema.get(word)
        counts = isinstance(bound, int | float) and not isinstance(bound, bool)
        measured = isinstance(value, kind) and not isinstance(value, bool)
        if counts and measured and not holds(value, bound):
            yield f"{where} {words} {bound}"


def _joined_misfits(
    value: Any, schema: dict[str, Any], root: Any, where: str, depth: int
) -> Iterator[str]:
    def fits(part: Any) -> bool:
        return next(_misfits(value, part, root, where, depth + 1), None) is None

    for part in schema.get("allOf", ()):
        yield from _misfits(value, part, root, where, depth + 1)
    if "anyOf" in schema and not any(map(fits, schema["anyOf"])):
        yield f"{where} is {_json_text(value)}, which fits none of its forms"
    if "oneOf" in schema and sum(map(fits, schema["oneOf"])) != 1:
        yield f"{where} is {_json_text(value)}, which does not fit exactly one of its forms"
    if "not" in schema and fits(schema["not"]):
        yield f"{where} is {_json_text(value)}, which is excluded"


def _object_misfits(
    value: dict[str, Any], schema: dict[str, Any], root: Any, where: str, depth: int
) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} lacks {name!r}"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, inner in value.items():
        place = f"{name!r} of {where}"
        if name in known:
            yield from _misfits(inner, known[name], root, place, depth + 1)
        elif not schema.get("patternProperties"):
            yield from _misfits(inner, others, root, place, depth + 1)


def _array_misfits(
    value: list[Any], schema: dict[str, Any], root: Any, where: str, depth: int
) -> Iterator[str]:
    first = schema.get("prefixItems", ())
    items = schema.get("items", True)
    for at, inner in enumerate(value):
        part = first[at] if at < len(first) else items
        if not isinstance(part, list):
            yield from _misfits(inner, part, root, f"item {at + 1} of {where}", depth + 1)


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are the same in JSON, where True is not 1."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _json_text(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
