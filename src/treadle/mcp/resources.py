"""Resources: what servers let a model read.

Owns the one tool that lists and reads them, and reading one for a mention. Invariant: its
specification never changes, whatever servers and resources there are.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from ..core.specs import FunctionTool, parameters
from ..tools.arguments import InvalidArguments, parse_arguments
from ..tools.contract import ToolCall, ToolContext, ToolResult
from .mcp_errors import CallFailed, ServerUnavailable
from .server_results import resource_text

if TYPE_CHECKING:
    from .servers import McpServers

__all__ = ["RESOURCE_TOOL", "ResourceTool", "read_resource"]

RESOURCE_TOOL = "mcp_resources"
_MOST_LISTED = 200
_MOST_PAGES = 10


class _Arguments(Struct, forbid_unknown_fields=True):
    action: Literal["list", "read"]
    server: str
    uri: str = ""


_SPEC = FunctionTool(
    name=RESOURCE_TOOL,
    description="Lists the resources of an MCP server, or reads one of them.",
    strict=False,
    parameters=parameters(
        {
            "action": {"type": "string", "enum": ["list", "read"]},
            "server": {"type": "string", "description": "The name of the server."},
            "uri": {"type": "string", "description": "Which resource to read."},
        },
        ("action", "server"),
    ),
)


class ResourceTool:
    """Lists and reads resources."""

    parallel = True
    replay_safe = True

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    @property
    def spec(self) -> FunctionTool:
        """Return the specification that the model gets."""
        return _SPEC

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """List or read."""
        del context
        try:
            asked = parse_arguments(call.name, call.arguments, _Arguments)
            if asked.action == "read":
                return ToolResult(await read_resource(self._servers, asked.server, asked.uri))
            return ToolResult(await _list(self._servers, asked.server))
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        except (CallFailed, ServerUnavailable) as error:
            return ToolResult(f"{call.name} failed: {error}", success=False)


async def read_resource(servers: McpServers, server: str, uri: str) -> str:
    """Return a resource as a model reads it. Raises `ServerUnavailable` and `CallFailed`."""
    client = await servers.client(server)
    answer = await _ask(servers, server, client.read_resource(uri))
    return "\n".join(map(resource_text, answer.contents)) or f"[resource {uri}: empty]"


async def _list(servers: McpServers, server: str) -> str:
    client = await servers.client(server)
    lines: list[str] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await _ask(servers, server, client.list_resources(cursor=cursor))
        lines += (_line(each.uri, each) for each in page.resources)
        cursor = page.next_cursor
        if cursor is None or len(lines) > _MOST_LISTED:
            break
    templates = await _ask(servers, server, client.list_resource_templates())
    lines += (_line(each.uri_template, each) for each in templates.resource_templates)
    more = f"\n… and {len(lines) - _MOST_LISTED} more" if len(lines) > _MOST_LISTED else ""
    return ("\n".join(lines[:_MOST_LISTED]) or "no resources") + more


def _line(uri: str, resource: Any) -> str:
    about = " ".join((resource.description or "").split())[:200]
    kind = f" ({resource.mime_type})" if resource.mime_type else ""
    return f"- {uri}{kind}: {resource.name}" + (f", {about}" if about else "")


async def _ask(servers: McpServers, server: str, work: Any) -> Any:
    """Wait for an answer, within the limit of its server."""
    limit = servers.servers[server].settings.timeout
    try:
        async with asyncio.timeout(limit):
            return await work
    except TimeoutError:
        raise CallFailed(server, f"did not answer within {limit:g} seconds") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CallFailed(server, f"says: {reason}") from error
