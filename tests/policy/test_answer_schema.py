from __future__ import annotations

from typing import Any

import pytest

from treadle.core.errors import ConfigError
from treadle.core.wire import Json
from treadle.policy.answer_schema import answer_schema, find_misfit

POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize(
    ("schema", "text", "misfit"),
    [
        (POINT, '{"x": 1}', ""),
        (POINT, '{"x": 1.0, "tags": ["a"]}', ""),
        (POINT, "not json", "it is no JSON: JSON is malformed"),
        (POINT, "```json\n{}\n```", "it is no JSON: JSON is malformed: invalid character (byte 0)"),
        (POINT, "[]", "the answer is [], and not of type object"),
        (POINT, "{}", "the answer lacks 'x'"),
        (POINT, '{"x": "1"}', "'x' of the answer is \"1\", and not of type integer"),
        (POINT, '{"x": true}', "'x' of the answer is true, and not of type integer"),
        (POINT, '{"x": 1, "y": 2}', "'y' of the answer must not be there"),
        (
            POINT,
            '{"x": 1, "tags": ["a", 2]}',
            "item 2 of 'tags' of the answer is 2, and not of type string",
        ),
        ({"type": "object"}, '{"whatever": [1]}', ""),
        ({"properties": {"n": {"type": ["string", "null"]}}}, '{"n": null}', ""),
        ({"properties": {"n": {"enum": ["a", 1]}}}, '{"n": true}', "'n' of the answer is true"),
        ({"properties": {"n": {"const": 3}}}, '{"n": 4}', "'n' of the answer is 4, and not 3"),
        ({"properties": {"n": {"minimum": 3}}}, '{"n": 2}', "'n' of the answer is less than 3"),
        ({"properties": {"n": {"maxLength": 1}}}, '{"n": "ab"}', "is longer than 1"),
        ({"properties": {"n": {"minItems": 1}}}, '{"n": []}', "has fewer items than 1"),
        ({"anyOf": [POINT, {"required": ["z"]}]}, '{"z": 1}', ""),
        ({"anyOf": [POINT, {"required": ["z"]}]}, '{"y": 1}', "fits none of its forms"),
        ({"oneOf": [{}, {"type": "object"}]}, "{}", "does not fit exactly one of its forms"),
        ({"allOf": [{"required": ["a"]}]}, "{}", "the answer lacks 'a'"),
        ({"not": {"required": ["a"]}}, '{"a": 1}', "which is excluded"),
        (TREE, '{"next": {"next": {}}}', ""),
        (TREE, '{"next": {"next": 1}}', "'next' of 'next' of the answer is 1"),
        ({"type": "object"}, "[" * 100_000, "it nests deeper"),
    ],
)
def test_an_answer_fits_its_schema_or_not(schema, text, misfit):
    found = find_misfit(text, answer_schema(schema))
    assert found.startswith(misfit) or misfit in found
    assert bool(found) == bool(misfit)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "nonsense"}, "something else than an object"),
        ({"properties": {"x": {"type": "text"}}}, "the type 'text'; there are 'object'"),
        ({"properties": []}, "'properties' in a form"),
        ({"required": "x"}, "'required' in a form"),
        ({"$ref": "#/$defs/gone"}, "which is not there"),
        ({"default": object()}, "is no JSON"),
        (Json(b"[]"), "no JSON object"),
        (Json(b"{"), "is no JSON"),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: Any, why: str):
    with pytest.raises(ConfigError, match="schema") as refused:
        answer_schema(schema)
    assert why in str(refused.value)
