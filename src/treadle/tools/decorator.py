"""`@tool`: a tool from a typed function.

Owns the way from a signature to a specification and from a call to arguments.
Invariant: a function gets exactly the types it asked for, or it is not called.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints, overload
from weakref import WeakKeyDictionary

import msgspec

from ..core.items import Output
from ..core.specs import FunctionTool
from ..core.wire import json_bytes
from .arguments import BadArguments, read_arguments
from .contract import ToolCall, ToolContext, ToolResult
from .schema import schema_of

__all__ = ["FunctionBacked", "tool"]

_Function = Callable[..., Any]
_POSITIONAL_ONLY = (inspect.Parameter.POSITIONAL_ONLY,)
_OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Shape(msgspec.Struct, frozen=True):
    """What a function is as a tool, whichever object it belongs to."""

    spec: FunctionTool
    arguments: type[msgspec.Struct]
    context_name: str | None


_SHAPES: WeakKeyDictionary[Any, dict[tuple[str, str], _Shape]] = WeakKeyDictionary()
"""Those of methods: each thread makes the same tools of the same methods."""


class FunctionBacked(msgspec.Struct, frozen=True, eq=False):
    """A tool that calls a function; still callable like the function itself."""

    function: _Function
    spec: FunctionTool
    arguments: type[msgspec.Struct]
    parallel: bool = False
    context_name: str | None = None
    """The parameter that gets the `ToolContext`; models do not see it."""
    replay_safe: bool = False
    """Whether a call leaves the world as it was."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Call the function with what the model wrote."""
        try:
            given = read_arguments(call.name, call.arguments, self.arguments)
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        values = {name: getattr(given, name) for name in given.__struct_fields__}
        if self.context_name is not None:
            values[self.context_name] = context
        return _result(await self._called(values))

    async def _called(self, values: dict[str, Any]) -> Any:
        if not inspect.iscoroutinefunction(self.function):
            return await asyncio.to_thread(self.function, **values)
        awaited: Awaitable[Any] = self.function(**values)
        return await awaited


@overload
def tool(function: _Function, /) -> FunctionBacked: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    replay_safe: bool = False,
) -> Callable[[_Function], FunctionBacked]: ...


def tool(
    function: _Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    replay_safe: bool = False,
) -> FunctionBacked | Callable[[_Function], FunctionBacked]:
    """Make a tool of a function; plain functions run in a thread.

    The docstring becomes the description, the annotations the schema;
    ``Annotated[str, msgspec.Meta(description=…)]`` describes one argument. A parameter
    annotated with `ToolContext` gets the context. A tool that is `replay_safe` leaves the
    world as it was: after its calls a turn may still be given to another model. The
    function may return text, content parts, a `ToolResult`, or any value that can be
    written as JSON.
    """

    def made(function: _Function) -> FunctionBacked:
        plain = _tool(function, name, description)
        return msgspec.structs.replace(plain, parallel=parallel, replay_safe=replay_safe)

    return made if function is None else made(function)


def _tool(function: _Function, name: str | None, description: str | None) -> FunctionBacked:
    name = name or function.__name__
    description = description or inspect.getdoc(function)
    if not description:
        raise TypeError(f"tool {name!r} has no description; give {name!r} a docstring")
    shape = _known_shape(name, description, function)
    return FunctionBacked(function, shape.spec, shape.arguments, context_name=shape.context_name)


def _known_shape(name: str, description: str, function: _Function) -> _Shape:
    if not inspect.ismethod(function):
        return _shape(name, description, function)
    known = _SHAPES.setdefault(function.__func__, {})
    if (name, description) not in known:
        known[name, description] = _shape(name, description, function)
    return known[name, description]


def _shape(name: str, description: str, function: _Function) -> _Shape:
    fields, context_name = _fields(name, function)
    arguments = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    spec = FunctionTool(name=name, description=description, parameters=schema_of(arguments))
    return _Shape(spec, arguments, context_name)


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
