"""Connecting to one MCP server, to see what it offers.

Owns what is measured and told of it. Invariant: what was seen is stored, so that the first thread
waits for nothing.
"""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

from ...mcp.call_permission import needs_approval
from ...mcp.mcp_errors import ServerUnavailable
from ...mcp.server_settings import McpServer
from ...mcp.servers import McpServers
from .known_servers import tool_tokens

__all__ = ["SeenServer", "SeenTool", "see_server"]


class SeenTool(Struct, frozen=True, kw_only=True):
    """A tool that a server offers."""

    name: str
    description: str
    asks: bool
    """Whether the user is asked before a call."""
    tokens: int
    """What it would take of every request."""


class SeenServer(Struct, frozen=True, kw_only=True):
    """What a server offered, or why it did not."""

    name: str
    ok: bool
    reason: str = ""
    protocol: str = ""
    milliseconds: int = 0
    tools: tuple[SeenTool, ...] = ()
    resources: bool = False
    prompts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Return what all its tools would take of every request."""
        return sum(tool.tokens for tool in self.tools)


async def see_server(server: McpServer, home: Path, cwd: Path) -> SeenServer:
    """Connect to a server, and store what it offers."""
    began = time.monotonic()
    async with McpServers([server], home=home, cwd=cwd, backoff=()) as servers:
        connection = servers.connection(server.name)
        try:
            await connection.wait_listed()
        except ServerUnavailable as error:
            return SeenServer(name=server.name, ok=False, reason=error.reason)
        took = round((time.monotonic() - began) * 1000)
        notes = await servers.prepare()
        snapshot = servers.snapshots[server.name]
    return SeenServer(
        name=server.name,
        ok=True,
        protocol=snapshot.version,
        milliseconds=took,
        tools=tuple(
            SeenTool(
                name=tool.name,
                description=tool.description,
                asks=needs_approval(server, tool),
                tokens=tool_tokens(tool),
            )
            for tool in snapshot.tools_for(server)
        ),
        resources=snapshot.has_resources,
        prompts=tuple(prompt.name for prompt in snapshot.prompts),
        notes=notes,
    )
