"""The two fixed functions by which a model reaches tools that are not in its requests.

Owns their specifications, whose bytes never change. Invariant: whatever servers come and go,
these two stay the same, so that the cached prefix does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..core.found_text import SEARCH_TOOL, FoundDefinition, write_found
from ..core.specs import FunctionTool, ToolSearchTool, parameters
from ..core.wire import json_bytes
from ..prompt.mcp_servers import CALL_TOOL
from ..tools.arguments import InvalidArguments, parse_arguments
from ..tools.contract import ToolCall, ToolContext, ToolResult
from .search import ToolIndex
from .server_tool import ServerTool

__all__ = ["CallFoundTool", "FindTools"]

_USUAL, _MOST = 8, 20


class _Search(Struct, forbid_unknown_fields=True):
    query: str
    limit: int = _USUAL


class _Call(Struct, forbid_unknown_fields=True):
    name: str
    arguments: Any = {}


_ABOUT = "Finds tools of the connected MCP servers by what they do."
_ARGUMENTS = parameters(
    {
        "query": {"type": "string", "description": "What the tool should do, in a few words."},
        "limit": {"type": "integer", "description": f"How many tools; usually {_USUAL}."},
    },
    ("query",),
)
_FIND = FunctionTool(
    name=SEARCH_TOOL,
    description=(
        f"{_ABOUT} Returns names, descriptions "
        f"and the schemas of their arguments. Call what you found with {CALL_TOOL}."
    ),
    strict=False,
    parameters=_ARGUMENTS,
)
_FIND_BY_PROVIDER = ToolSearchTool(
    execution="client",
    description=f"{_ABOUT} What it finds can be called by its name from then on.",
    parameters=_ARGUMENTS,
)

_CALL = FunctionTool(
    name=CALL_TOOL,
    description=f"Calls a tool that {SEARCH_TOOL} found, by its full name.",
    strict=False,
    parameters=parameters(
        {
            "name": {"type": "string", "description": "The full name, such as mcp__docs__read."},
            "arguments": {
                "type": "object",
                "description": "Its arguments, as its schema says.",
                "additionalProperties": True,
            },
        },
        ("name",),
    ),
)


class FindTools:
    """Searches the tools that are not in the requests.

    With `by_provider` the model is told of it in the form that its provider has for this.
    """

    parallel = True
    replay_safe = True

    def __init__(self, tools: tuple[ServerTool, ...], *, by_provider: bool = False) -> None:
        self._tools = tools
        self._by_provider = by_provider
        self._index: ToolIndex | None = None

    @property
    def spec(self) -> FunctionTool | ToolSearchTool:
        """Return the specification that the model gets."""
        return _FIND_BY_PROVIDER if self._by_provider else _FIND

    def only(self, allows: Callable[[str], bool]) -> FindTools:
        """Return it without the tools that are not allowed."""
        return FindTools(tuple(tool for tool in self._tools if allows(tool.name)))

    def for_provider(self) -> FindTools:
        """Return it as it is told of where the provider has a form for it."""
        return FindTools(self._tools, by_provider=True)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Search."""
        del context
        try:
            asked = parse_arguments(call.name, call.arguments, _Search)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        if self._index is None:
            self._index = ToolIndex(self._tools)
        found = self._index.search(asked.query, min(max(asked.limit, 1), _MOST))
        if not found:
            many = len(self._tools)
            return ToolResult(f"No tool of {many} fits these words; try others, or fewer.")
        return ToolResult(write_found(map(_definition, found)))


def _definition(tool: ServerTool) -> FoundDefinition:
    return FoundDefinition(tool.name, tool.record.description, tool.record.parameters)


class CallFoundTool:
    """Calls a tool that is not in the requests."""

    def __init__(self, tools: Mapping[str, ServerTool]) -> None:
        self._tools = tools

    @property
    def spec(self) -> FunctionTool:
        """Return the specification that the model gets."""
        return _CALL

    @property
    def parallel(self) -> bool:
        """Return False: which tool is meant is known only from the arguments."""
        return False

    def only(self, allows: Callable[[str], bool]) -> CallFoundTool:
        """Return it without the tools that are not allowed."""
        return CallFoundTool({name: tool for name, tool in self._tools.items() if allows(name)})

    def forward(self, call: ToolCall) -> tuple[ServerTool, ToolCall] | None:
        """Return the tool that a call names, and the call as that tool gets it."""
        try:
            asked = parse_arguments(call.name, call.arguments, _Call)
        except InvalidArguments:
            return None
        tool = self._tools.get(asked.name)
        if tool is None:
            return None
        given = asked.arguments
        # Some models write the inner arguments as a string.
        text = given if isinstance(given, str) else json_bytes(given).decode()
        return tool, replace(call, name=tool.name, arguments=text)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Say why a call could not be passed on."""
        del context
        try:
            asked = parse_arguments(call.name, call.arguments, _Call)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        return ToolResult(
            f"there is no tool {asked.name[:100]!r}, or it is no longer offered; "
            f"{SEARCH_TOOL} finds those that are",
            success=False,
        )
