"""What may stand around a call: the part of the hooks that tools know of.

Owns the `ToolHooks` Protocol and how a hook's parameters join a model's. Invariant:
a hook can change what a call is given and what it answers, never which call it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from ..core.items import CustomToolCall
from ..core.wire import Json, json_bytes
from .contract import Tool, ToolCall, ToolContext, ToolResult

__all__ = [
    "NO_HOOKS",
    "Block",
    "HookVerdict",
    "Merge",
    "NoHooks",
    "ToolHooks",
    "is_hooked",
    "merged",
]


class Merge(Struct, frozen=True):
    """Run the call with these parameters put over its own."""

    parameters: dict[str, Json]


class Block(Struct, frozen=True):
    """Do not run the call; the model reads the reason."""

    reason: str


HookVerdict: TypeAlias = Merge | Block | None


class ToolHooks(Protocol):
    """What a host does around calls.

    A hook that raises before a call keeps it from running; one that raises later
    changes nothing. Either is logged.
    """

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        """Whether `call` runs, and with what."""
        ...

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        """The result to record in the place of `result`."""
        ...

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        """Look at what was recorded."""
        ...


class NoHooks:
    """Leaves every call as it is."""

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        """Run it."""
        del call, context
        return None

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        """Keep it."""
        del call, context
        return result

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        """Nothing."""


NO_HOOKS: ToolHooks = NoHooks()


def is_hooked(tool: Tool) -> bool:
    """Whether `tool` passes its calls by hooks itself, so that nobody else must.

    A tool says so with an attribute ``hooked``.
    """
    return bool(getattr(tool, "hooked", False))


def merged(call: ToolCall, parameters: Mapping[str, Json]) -> ToolCall:
    """`call` with `parameters` over its own; a freeform call has one, ``input``.

    Arguments that are no JSON object stay, so that the tool can say what is wrong.
    """
    if isinstance(call.item, CustomToolCall):
        given = parameters.get("input")
        text = call.arguments if given is None else msgspec.json.decode(given, type=str)
        return msgspec.structs.replace(call, arguments=text)
    try:
        own = msgspec.json.decode(call.arguments or "{}", type=dict[str, Json])
    except msgspec.DecodeError:
        return call
    return msgspec.structs.replace(call, arguments=json_bytes({**own, **parameters}).decode())
