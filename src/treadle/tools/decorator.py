"""`@tool`: a tool from a typed function.

Owns the way from a signature to a specification and from a call to arguments. Invariants: a
function gets exactly the types it declares, or it is not called; the same types always give
the same schema bytes: names sorted, definitions written out in place, nothing left open.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints, overload
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw

from ..core.items import Output
from ..core.specs import FunctionTool
from ..core.wire import Json, json_bytes
from .arguments import InvalidArguments, parse_arguments
from .contract import ToolCall, ToolContext, ToolResult

__all__ = ["PythonTool", "tool"]

_Function = Callable[..., Any]
_POSITIONAL_ONLY = (inspect.Parameter.POSITIONAL_ONLY,)
_OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_REFERENCE = "#/$defs/"
_LAST_KEYS = ("required", "additionalProperties")


class _Signature(msgspec.Struct, frozen=True):
    """A function as a tool, whichever object it belongs to."""

    spec: FunctionTool
    arguments: type[msgspec.Struct]
    context_name: str | None


_SIGNATURES: WeakKeyDictionary[Any, dict[tuple[str, str], _Signature]] = WeakKeyDictionary()
"""The signatures of methods: each thread makes the same tools of the same methods."""


class PythonTool(msgspec.Struct, frozen=True, eq=False):
    """A tool that calls a function; still callable like the function itself."""

    function: _Function
    spec: FunctionTool
    arguments: type[msgspec.Struct]
    parallel: bool = False
    context_name: str | None = None
    """The parameter that gets the `ToolContext`; models do not see it."""
    replay_safe: bool = False
    """Whether a call changes nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Call the function with the arguments of a call."""
        try:
            given = parse_arguments(call.name, call.arguments, self.arguments)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        values = {name: getattr(given, name) for name in given.__struct_fields__}
        if self.context_name is not None:
            values[self.context_name] = context
        return _result(await self._call(values))

    async def _call(self, values: dict[str, Any]) -> Any:
        if not inspect.iscoroutinefunction(self.function):
            return await asyncio.to_thread(self.function, **values)
        awaited: Awaitable[Any] = self.function(**values)
        return await awaited


@overload
def tool(function: _Function, /) -> PythonTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    replay_safe: bool = False,
) -> Callable[[_Function], PythonTool]: ...


def tool(
    function: _Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    replay_safe: bool = False,
) -> PythonTool | Callable[[_Function], PythonTool]:
    """Create a tool from a function; functions that are not async run in a thread.

    The docstring becomes the description, the annotations the schema;
    ``Annotated[str, msgspec.Meta(description=…)]`` describes one argument. A parameter
    annotated with `ToolContext` gets the context. A tool that is `replay_safe` changes
    nothing: after its calls another model may still run the turn. The function may
    return text, content parts, a `ToolResult`, or any value that can be written as JSON.
    """

    def decorate(function: _Function) -> PythonTool:
        signature = _find_signature(function, name, description)
        return PythonTool(
            function,
            signature.spec,
            signature.arguments,
            parallel=parallel,
            context_name=signature.context_name,
            replay_safe=replay_safe,
        )

    return decorate if function is None else decorate(function)


def _find_signature(function: _Function, name: str | None, description: str | None) -> _Signature:
    name = name or function.__name__
    description = description or inspect.getdoc(function)
    if not description:
        raise TypeError(f"tool {name!r} has no description; give {name!r} a docstring")
    if not inspect.ismethod(function):
        return _read_signature(name, description, function)
    known = _SIGNATURES.setdefault(function.__func__, {})
    if (name, description) not in known:
        known[name, description] = _read_signature(name, description, function)
    return known[name, description]


def _read_signature(name: str, description: str, function: _Function) -> _Signature:
    fields, context_name = _fields(name, function)
    arguments = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    spec = FunctionTool(name=name, description=description, parameters=_schema(arguments))
    return _Signature(spec, arguments, context_name)


def _fields(name: str, function: _Function) -> tuple[list[Any], str | None]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    context_name = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (*_POSITIONAL_ONLY, *_OPEN_ENDED):
            raise TypeError(f"tool {name!r}: {str(parameter)!r} cannot be given by name")
        if parameter.name not in hints:
            raise TypeError(f"tool {name!r}: annotate the parameter {parameter.name!r}")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
        else:
            fields.append(_field(parameter, hints[parameter.name]))
    return fields, context_name


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[Any, ...]:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return (parameter.name, hint)
    if isinstance(default, list | dict | set):
        return (parameter.name, hint, msgspec.field(default_factory=default.copy))
    return (parameter.name, hint, default)


def _schema(struct: type[msgspec.Struct]) -> Json:
    """Return the JSON schema of `struct`, which must not contain itself."""
    (top,), definitions = msgspec.json.schema_components([struct])
    return Raw(json_bytes(_write_out(top, definitions, ())))


def _write_out(node: Any, definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(node, list | tuple):
        return [_write_out(each, definitions, within) for each in node]
    if not isinstance(node, dict):
        return node
    if (reference := node.get("$ref")) is not None:
        name = reference.removeprefix(_REFERENCE)
        if name in within:
            raise TypeError(f"{name!r} contains itself; tools take arguments of a fixed shape")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _write_out({**definitions[name], **beside}, definitions, (*within, name))
    return {
        key: _properties(node[key], definitions, within)
        if key == "properties"
        else _write_out(node[key], definitions, within)
        for key in sorted(node, key=_order)
        if not _is_noise(key, node[key])
    }


def _properties(node: dict[str, Any], definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    return {name: _write_out(node[name], definitions, within) for name in sorted(node)}


def _order(key: str) -> tuple[bool, int, str]:
    first = key != "type"
    return (first, _LAST_KEYS.index(key) + 1 if key in _LAST_KEYS else 0, key)


def _is_noise(key: str, value: Any) -> bool:
    """Return whether a key adds nothing: titles repeat names, a null default means optional."""
    return (key == "title" and isinstance(value, str)) or (key == "default" and value is None)


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    return ToolResult(_output(value))


def _output(value: Any) -> Output:
    if value is None:
        return "Done"
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and value and all(isinstance(p, msgspec.Struct) for p in value):
        return value
    return json_bytes(value).decode()
