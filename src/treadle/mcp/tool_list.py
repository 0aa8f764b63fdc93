"""Tool lists as servers send them: what of one can be used.

Owns the checks and the canonical form of a tool. Invariants: a tool that cannot be used is left
out alone and named; what is kept has no icons, no `_meta`, bounded texts and sorted keys, so that
the same tools are the same bytes in whatever order and spelling a server sends them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..core.text import whole_characters
from ..core.wire import Json, is_nested_deeper
from ..policy.schema_flaws import MOST_LEVELS, look_at

__all__ = [
    "LONGEST_TEXT",
    "MOST_TOOLS",
    "RETURNS",
    "ToolRecord",
    "bounded_text",
    "canonical",
    "read_tools",
    "usable_entries",
]

MOST_TOOLS = 1_000
"""Tools of one server."""

LONGEST_TEXT = 2_048
"""Bytes of a description, and of a server's instructions."""

RETURNS = "treadle/returns"
"""The key in `_meta` under which the schema of structured results travels."""

_PROBLEM = "treadle/problem"
"""The key in `_meta` under which travels why an entry cannot be used."""

_LONGEST_NAME = 128
_LARGEST_SCHEMA = 64 << 10
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,128}")


class ToolRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool in canonical form."""

    name: str
    """As its server calls it."""
    description: str = ""
    parameters: Json
    returns: Json | UnsetType = UNSET
    """The schema of its structured results."""
    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    asks: bool = False
    """Whether the server wants a person to see every call."""


def usable_entries(entries: Iterable[Any]) -> list[Any]:
    """Return entries that anybody can read; one without the shape of a tool only says why.

    For lists before anything reads them: one entry must not spoil the rest.
    """
    return [
        _usable_entry(entry, number)
        for number, entry in enumerate(islice(entries, MOST_TOOLS + 1), 1)
    ]


def _usable_entry(entry: Any, number: int) -> dict[str, Any]:
    if problem := _shape_problem(entry):
        named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
        name = entry["name"] if named else f"number {number}"
        return {"name": name, "inputSchema": {"type": "object"}, "_meta": {_PROBLEM: problem}}
    meta = {**(entry.get("_meta") or {}), RETURNS: entry.get("outputSchema"), _PROBLEM: ""}
    # Nothing reads some of them. The schema of results is checked here: the SDK would throw
    # away a result that does not fit it.
    unread = ("icons", "execution", "title", "outputSchema")
    kept = {key: value for key, value in entry.items() if key not in unread}
    return {**kept, "_meta": meta}


def _shape_problem(entry: Any) -> str:
    """Return why an entry is no tool that can be called; empty where it is one."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return "has no name"
    schema, execution = entry.get("inputSchema"), entry.get("execution")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "has no schema of an object for its arguments"
    texts = all(isinstance(entry.get(key), str | None) for key in ("description", "title"))
    tables = ("annotations", "_meta", "outputSchema")
    if not texts or not all(isinstance(entry.get(key), dict | None) for key in tables):
        return "is described by values of the wrong types"
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        return "is called only as a task of the protocol of 2025, which is not spoken"
    return ""


def read_tools(entries: Iterable[dict[str, Any]]) -> tuple[tuple[ToolRecord, ...], list[str]]:
    """Return the tools sorted by name, and a sentence for each that was left out."""
    found: dict[str, ToolRecord] = {}
    problems: list[str] = []
    for number, entry in enumerate(entries):
        if number >= MOST_TOOLS:
            problems.append(f"it lists more than {MOST_TOOLS} tools; the rest is left out")
            break
        read = _read_tool(entry)
        if isinstance(read, str):
            problems.append(f"the tool {str(entry.get('name'))[:60]!r} is left out: it {read}")
        elif read.name in found:
            problems.append(f"the tool {read.name[:60]!r} is listed twice; the first counts")
        else:
            found[read.name] = read
    return tuple(found[name] for name in sorted(found)), problems


def _read_tool(entry: dict[str, Any]) -> ToolRecord | str:
    name, meta = entry["name"], entry.get("_meta") or {}
    if problem := meta.get(_PROBLEM):
        return str(problem)
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        return "has no usable name"
    schemas = [entry["inputSchema"], meta.get(RETURNS)]
    if (foreign := next(_foreign_references(schemas), None)) is not None:
        return f"refers to {foreign[:80]!r}, which is outside its schema"
    parameters = canonical(entry["inputSchema"])
    if isinstance(parameters, str):
        return parameters
    if (flaw := look_at(parameters)) is not None and flaw.fatal:
        return f"has a schema that {flaw.words}"
    returns = UNSET if schemas[1] is None else canonical(schemas[1])
    hints = entry.get("annotations") or {}
    return ToolRecord(
        name=name,
        description=bounded_text(entry.get("description") or ""),
        parameters=parameters,
        returns=UNSET if isinstance(returns, str) else returns,
        read_only=hints.get("readOnlyHint") is True,
        destructive=hints.get("destructiveHint") is not False,
        open_world=hints.get("openWorldHint") is not False,
        asks=meta.get("anthropic/requiresUserInteraction") is True,
    )


def canonical(schema: Any) -> Raw | str:
    """Return a schema with sorted keys, or why it cannot be used."""
    try:
        data = msgspec.json.encode(schema, order="deterministic")
    except (RecursionError, msgspec.MsgspecError, UnicodeError, TypeError):
        return "has a schema that cannot be written"
    if len(data) > _LARGEST_SCHEMA:
        return f"has a schema of {len(data)} bytes, more than {_LARGEST_SCHEMA}"
    if is_nested_deeper(data, MOST_LEVELS):
        return f"has a schema that nests more than {MOST_LEVELS} levels"
    return Raw(data)


def _foreign_references(schemas: list[Any]) -> Iterator[str]:
    """Yield what schemas refer to beyond themselves; nobody fetches that."""
    waiting = list(schemas)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for word in ("$ref", "$dynamicRef"):
                target = value.get(word)
                if isinstance(target, str) and not target.startswith("#"):
                    yield target
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def bounded_text(text: str) -> str:
    """Return a text without half and control characters, cut with a sign where it is long."""
    data = _CONTROLS.sub("", whole_characters(text)).strip().encode()
    if len(data) <= LONGEST_TEXT:
        return data.decode()
    return data[: LONGEST_TEXT - 4].decode(errors="ignore") + " …"
