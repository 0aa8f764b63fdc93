"""Root branches: schemas whose root is a choice between others.

Owns making one object of them, for APIs that refuse a whole request for such a tool. Invariant:
whatever the choice allowed is still allowed; a schema without one keeps its bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ...core.wire import Json, json_bytes

__all__ = ["joined_root"]

_EITHER = ("anyOf", "oneOf")
_ALL = "allOf"
_WORDS = (*_EITHER, _ALL, "not", "enum")
_members = msgspec.json.Decoder(dict[str, Raw])


def joined_root(parameters: Json) -> Json:
    """Return a schema with the properties of all branches of its root in one object."""
    if not any(word in _members.decode(parameters) for word in _WORDS):
        return parameters
    root: dict[str, Any] = msgspec.json.decode(parameters)
    properties = dict(_table(root, "properties"))
    required = list(_names(root))
    for word in (*_EITHER, _ALL):
        branches = [_branch(root, each) for each in root.get(word) or () if isinstance(each, dict)]
        for branch in branches:
            for name, schema in _table(branch, "properties").items():
                properties.setdefault(name, schema)
        wanted = [set(_names(branch)) for branch in branches]
        if wanted:
            # Of a choice, only what every branch wants is wanted in any case.
            common = set.union(*wanted) if word == _ALL else set.intersection(*wanted)
            required += sorted(common - set(required))
    kept = {name: value for name, value in root.items() if name not in _WORDS}
    kept |= {"type": "object", "properties": properties}
    if required:
        kept["required"] = required
    if kept.get("additionalProperties") is False and len(properties) > len(
        _table(root, "properties")
    ):
        del kept["additionalProperties"]
    return Raw(json_bytes(kept))


def _branch(root: dict[str, Any], branch: dict[str, Any]) -> dict[str, Any]:
    """Return a branch, or what it refers to among the definitions of its schema."""
    way, _, name = str(branch.get("$ref", "")).rpartition("/")
    if way not in ("#/$defs", "#/definitions"):
        return branch
    found = _table(root, way[2:]).get(name)
    return found if isinstance(found, dict) else branch


def _table(schema: dict[str, Any], key: str) -> dict[str, Any]:
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def _names(schema: dict[str, Any]) -> list[str]:
    found = schema.get("required")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
