"""Schemas: in which form the parameters of tools are offered to a target.

Owns what strict means for a whole inventory, and what becomes of a tool whose schema
or name would spoil every request. Invariants: nothing is raised for a schema; what needs no
change keeps its bytes, and whatever comes out stays as it is when it comes in again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..core.specs import CustomTool, FunctionTool, Namespace, ToolSpec
from ..core.wire import Json, Unknown, json_bytes
from .schema_flaws import Flaw, look_at
from .target import Target

__all__ = ["NO_PARAMETERS", "Diagnostic", "Inventory", "normalise"]

NO_PARAMETERS: Json = Raw(
    json_bytes({"type": "object", "properties": {}, "required": [], "additionalProperties": False})
)
"""The schema of a tool without parameters."""

Consequence: TypeAlias = Literal["left_out", "permissive"]
Member: TypeAlias = FunctionTool | CustomTool | Unknown

_FITS: dict[str, Any] = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}
"""What a schema without parameters may say, beside what only people read."""
_REMARKS = frozenset(("$schema", "$id", "$comment", "title", "description"))
_BRANCHES = ("oneOf", "anyOf", "allOf", "enum", "not")
"""What OpenAI does not take at the root of a schema, strict or not."""

_LONGEST_NAME = 128
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST_NAME}}}")
"""A name that no provider refuses a request for, and that poses as nothing else."""

_members = msgspec.json.Decoder(dict[str, Raw])


class Diagnostic(Struct, frozen=True, kw_only=True):
    """What was found in a tool's schema, and what became of the tool."""

    tool: str
    code: str
    message: str
    consequence: Consequence


class Inventory(Struct, frozen=True, kw_only=True):
    """The tools as a target is offered them."""

    specs: tuple[ToolSpec, ...]
    strict: bool = False
    """Whether every function among them is held to its schema by the provider."""
    diagnostics: tuple[Diagnostic, ...] = ()


def normalise(specs: Sequence[ToolSpec], target: Target, *, freeform: bool = True) -> Inventory:
    """`specs` in the form that `target` takes them; with or without `freeform` tools.

    Only OpenAI's own address gets other schemas than it was given; a proxy, another
    provider and Codex get the very same specs, except those that nobody could read.
    """
    given = tuple(specs)
    # The formats of other APIs write freeform tools as functions.
    bare = () if freeform or target.api != "responses" else _freeform(given)
    found = (*_diagnose(given, target), *bare)
    refused = {each.tool for each in found if each.consequence == "left_out"}
    kept = tuple(_without(given, refused)) if refused else given
    if not target.openai:
        return Inventory(specs=kept, diagnostics=found)
    from .schema_strict import is_strict

    formed = tuple(_each(kept, _with_object_type))
    functions = list(_functions(formed))
    strict = bool(functions) and all(is_strict(each.parameters) for _, each in functions)
    held = tuple(_each(formed, lambda tool: _with_strict(tool, strict=strict)))
    return Inventory(specs=_same(given, held), strict=strict, diagnostics=found)


def _same(given: tuple[ToolSpec, ...], made: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    return given if made == given else made


def _diagnose(specs: Iterable[ToolSpec], target: Target) -> Iterator[Diagnostic]:
    for name, tool in _functions(specs):
        if _NAME.fullmatch(tool.name) is None:
            yield Diagnostic(
                tool=name,
                code="name",
                message=f"providers take names of letters, digits, '_' and '-', up to "
                f"{_LONGEST_NAME}: the tool {name[:_LONGEST_NAME]!r} is not offered",
                consequence="left_out",
            )
            continue
        flaw = look_at(tool.parameters) or (_at_the_root(tool) if target.openai else None)
        if flaw is None:
            continue
        consequence: Consequence = "left_out" if flaw.fatal else "permissive"
        if consequence == "permissive" and not target.openai:
            continue
        after = "it is not offered" if flaw.fatal else "it is offered as it is, and not strictly"
        yield Diagnostic(
            tool=name,
            code=flaw.code,
            message=f"the schema of the tool {name!r} {flaw.words}; {after}",
            consequence=consequence,
        )


def _freeform(specs: Sequence[ToolSpec]) -> Iterator[Diagnostic]:
    names = [spec.name for spec in specs if isinstance(spec, CustomTool)]
    for space in (spec for spec in specs if isinstance(spec, Namespace)):
        free = (tool for tool in space.tools if isinstance(tool, CustomTool))
        names += [f"{space.name}.{tool.name}" for tool in free]
    for name in names:
        yield Diagnostic(
            tool=name,
            code="freeform",
            message=f"the model takes functions only: the tool {name!r} is not offered",
            consequence="left_out",
        )


def _at_the_root(tool: FunctionTool) -> Flaw | None:
    """What OpenAI refuses the whole request for."""
    branch = next((word for word in _BRANCHES if word in _members.decode(tool.parameters)), None)
    if branch is None:
        return None
    return Flaw(
        "root_branches", f"says {branch!r} at its root, where OpenAI wants one object", True
    )


def _functions(specs: Iterable[ToolSpec]) -> Iterator[tuple[str, FunctionTool]]:
    """Every function with the name that people know it by."""
    for spec in specs:
        if isinstance(spec, FunctionTool):
            yield spec.name, spec
        elif isinstance(spec, Namespace):
            members = (tool for tool in spec.tools if isinstance(tool, FunctionTool))
            yield from ((f"{spec.name}.{tool.name}", tool) for tool in members)


def _without(specs: Iterable[ToolSpec], refused: set[str]) -> Iterator[ToolSpec]:
    for spec in specs:
        if isinstance(spec, Namespace):
            tools = tuple(
                tool
                for tool in spec.tools
                if isinstance(tool, Unknown) or f"{spec.name}.{tool.name}" not in refused
            )
            if tools or not spec.tools:
                yield msgspec.structs.replace(spec, tools=tools)
        elif not isinstance(spec, FunctionTool | CustomTool) or spec.name not in refused:
            yield spec


def _each(
    specs: Iterable[ToolSpec], change: Callable[[FunctionTool], FunctionTool]
) -> Iterator[ToolSpec]:
    """`specs` with every function changed, also those in namespaces."""
    for spec in specs:
        if isinstance(spec, FunctionTool):
            yield change(spec)
        elif isinstance(spec, Namespace):
            tools: tuple[Member, ...] = tuple(
                change(tool) if isinstance(tool, FunctionTool) else tool for tool in spec.tools
            )
            yield msgspec.structs.replace(spec, tools=tools)
        else:
            yield spec


def _with_strict(tool: FunctionTool, *, strict: bool) -> FunctionTool:
    return tool if tool.strict is strict else msgspec.structs.replace(tool, strict=strict)


def _with_object_type(tool: FunctionTool) -> FunctionTool:
    schema = _members.decode(tool.parameters)
    if _has_no_parameters(schema):
        return _with(tool, NO_PARAMETERS)
    if "type" in schema:
        return tool
    return _with(tool, Raw(json_bytes({"type": "object", **schema})))


def _with(tool: FunctionTool, parameters: Json) -> FunctionTool:
    return msgspec.structs.replace(tool, parameters=parameters)


def _has_no_parameters(schema: dict[str, Raw]) -> bool:
    said = {word: raw for word, raw in schema.items() if word not in _REMARKS}
    return all(
        word in _FITS and msgspec.json.decode(raw) == _FITS[word] for word, raw in said.items()
    )
