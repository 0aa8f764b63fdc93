"""Tools for APIs that know functions only.

Owns the flat name of a tool (`namespace__name`) and how a freeform tool becomes a
function with one string. Invariant: reading a call back with the same specifications
gives the tool that was meant, under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from ...core.items import CustomToolCall, FunctionCall
from ...core.specs import SPECS, CustomTool, FunctionTool, Grammar, Namespace, ToolSpec
from ...core.wire import Json, Unknown, json_bytes

__all__ = [
    "INPUT",
    "FlatTool",
    "call_item",
    "flat_name",
    "flat_tools",
    "freeform_arguments",
    "freeform_input",
]

INPUT = "input"
"""The one argument of a freeform tool."""

_FREEFORM_SCHEMA = Raw(
    json_bytes(
        {
            "type": "object",
            "properties": {INPUT: {"type": "string", "description": "The whole input as text."}},
            "required": [INPUT],
            "additionalProperties": False,
        }
    )
)


class FlatTool(Struct, frozen=True, kw_only=True):
    """One tool as a plain function; `name` is what the API calls it."""

    name: str
    tool: str
    namespace: str | None = None
    description: str
    parameters: Json
    strict: bool = False
    freeform: bool = False


def flat_tools(tools: tuple[Json, ...]) -> tuple[FlatTool, ...]:
    """The functions in `tools`, in order; what a provider would have to run is left out."""
    flat: list[FlatTool] = []
    for encoded in tools:
        spec = SPECS.decode(encoded)
        if isinstance(spec, Namespace):
            members = (_flat(member, spec.name) for member in spec.tools)
            flat += [tool for tool in members if tool is not None]
        elif (tool := _flat(spec, None)) is not None:
            flat.append(tool)
    return tuple(flat)


def flat_name(name: str, namespace: str | None) -> str:
    """The name of a tool where there are no namespaces."""
    return f"{namespace}__{name}" if namespace else name


def freeform_arguments(text: str) -> str:
    """The arguments that carry a freeform input."""
    return json_bytes({INPUT: text}).decode()


def freeform_input(arguments: str) -> str:
    """The freeform input in `arguments`; they are taken as they are when it is not there."""
    try:
        value = msgspec.json.decode(arguments, type=dict[str, object]).get(INPUT)
    except (msgspec.DecodeError, UnicodeError):
        return arguments
    return value if isinstance(value, str) else arguments


def call_item(
    tools: Mapping[str, FlatTool], name: str, arguments: str, call_id: str
) -> FunctionCall | CustomToolCall:
    """The call a model made by a flat name, as an item of the tool that was meant."""
    tool = tools.get(name)
    if tool is None:
        return FunctionCall(name=name, arguments=arguments, call_id=call_id)
    if tool.freeform:
        said = freeform_input(arguments)
        return CustomToolCall(name=tool.tool, namespace=tool.namespace, input=said, call_id=call_id)
    return FunctionCall(
        name=tool.tool, namespace=tool.namespace, arguments=arguments, call_id=call_id
    )


def _flat(spec: ToolSpec | Unknown, namespace: str | None) -> FlatTool | None:
    match spec:
        case FunctionTool():
            return FlatTool(
                name=flat_name(spec.name, namespace),
                tool=spec.name,
                namespace=namespace,
                description=spec.description,
                parameters=spec.parameters,
                strict=spec.strict,
            )
        case CustomTool():
            return FlatTool(
                name=flat_name(spec.name, namespace),
                tool=spec.name,
                namespace=namespace,
                description=_with_grammar(spec),
                parameters=_FREEFORM_SCHEMA,
                freeform=True,
            )
        case _:
            return None


def _with_grammar(spec: CustomTool) -> str:
    """The description, with the grammar that a function cannot enforce spelled out."""
    if not isinstance(spec.format, Grammar):
        return spec.description
    grammar = spec.format
    return (
        f"{spec.description}\n\n"
        f"`{INPUT}` must follow this {grammar.syntax} grammar:\n{grammar.definition}"
    )
