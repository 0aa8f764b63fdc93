"""Client servers: the MCP servers that a client brings, as servers of ours.

Owns the translation. Invariant: whoever starts this program is its user, so that the servers
which its client names are the user's own; names are made fit for the names of tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from ..config.mcp_settings import McpServerSettings
from ..core.errors import InvalidOption
from ..mcp.server_settings import McpServer

__all__ = ["client_servers"]

_ORIGIN = "host"


def client_servers(
    servers: Iterable[HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio],
) -> tuple[McpServer, ...]:
    """Return the servers. Raises `InvalidOption` for a transport that is not spoken here."""
    return tuple(
        McpServer(name=_name(each.name), settings=_settings(each), origin=_ORIGIN)
        for each in servers
    )


def _settings(
    server: HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio,
) -> McpServerSettings:
    match server:
        case McpServerStdio():
            variables = {each.name: each.value for each in server.env}
            return McpServerSettings(command=server.command, args=tuple(server.args), env=variables)
        case HttpMcpServer():
            headers = {each.name: each.value for each in server.headers}
            return McpServerSettings(url=server.url, headers=headers)
        case _:
            raise InvalidOption(
                f"the MCP server {server.name!r} uses {server.type!r}, which is not spoken here; "
                "give it by a command, or by streamable HTTP"
            )


def _name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:64] or "server"
