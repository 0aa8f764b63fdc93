"""The MCP servers that commands speak of: those of the settings, and of a project's file.

Owns finding them, and their public view. Invariants: a server of a project counts only as it was
trusted; no view has the value of a variable or of a header in it.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ...config import Config, load_config
from ...config.trusted_files import TrustStore
from ...core.errors import ConfigError, NotFound
from ...core.text import approx_tokens
from ...mcp.server_files import FoundServer, find_project_servers
from ...mcp.server_settings import McpServer
from ...mcp.snapshot import SnapshotFiles
from ...mcp.tool_list import ToolRecord
from ..cli_home import Home

__all__ = [
    "ServerView",
    "find_server",
    "known_servers",
    "project_servers",
    "servers_of",
    "tool_tokens",
    "view_server",
]


_OVERHEAD = 40
"""Bytes around a tool's name, description and schema."""


class ServerView(Struct, frozen=True, kw_only=True):
    """What is shown of a server."""

    name: str
    transport: str
    place: str
    origin: str
    enabled: bool
    required: bool
    trusted: bool
    approval: str
    tools: int | None = None
    """How many it offers; None where it was never asked."""
    tokens: int | None = None
    """What these would take of every request."""
    protocol: str = ""


def known_servers(home: Home, cwd: Path | None = None) -> tuple[McpServer, ...]:
    """Return the servers of the settings in force and of a trusted project, by name."""
    place = (cwd or Path()).absolute()
    return servers_of(load_config(home.path, place, os.environ), home.path, place)


def servers_of(config: Config, home: Path, cwd: Path) -> tuple[McpServer, ...]:
    """Return the servers that count, by name; one of the settings hides one of a file."""
    configured = config.settings.mcp.servers
    origins = {
        key[2]: layer.kind
        for layer in config.layers
        for key in layer.values
        if key[:2] == ("mcp", "servers")
    }
    found = {each.name: each.server for each in project_servers(home, cwd) if not each.problem}
    found |= {
        name: McpServer(name=name, settings=own, origin=origins.get(name, "user"))
        for name, own in configured.items()
    }
    return tuple(found[name] for name in sorted(found))


def project_servers(home: Path, cwd: Path, *, trusted: bool = True) -> tuple[FoundServer, ...]:
    """Return the servers of the project's `.mcp.json` that are trusted, or those that are not.

    A file that cannot be read has none: a repository must not keep anybody from working in it.
    """
    trust = TrustStore(home)
    try:
        found = find_project_servers(cwd)
    except ConfigError:
        return ()
    return tuple(
        each
        for each in found
        if trust.is_hook_trusted(each.file, each.trust_name, each.digest) == trusted
    )


def find_server(home: Home, name: str) -> McpServer:
    """Return one server. Raises `NotFound`, and `ConfigError` for one that is not trusted."""
    for server in known_servers(home):
        if server.name == name:
            return server
    for found in project_servers(home.path, Path().absolute(), trusted=False):
        if found.name == name:
            problem = found.problem or f"read it, then `treadle mcp trust {name}` lets it count"
            raise ConfigError(
                f"the MCP server {name!r} of {str(found.file)!r} is not trusted as it is; {problem}"
            )
    raise NotFound("MCP server", name, "`treadle mcp list` lists them, `treadle mcp add` adds one")


def view_server(server: McpServer, home: Path) -> ServerView:
    """Return what is shown of a server; what it offers, as it was seen last."""
    own = server.settings
    seen = SnapshotFiles.in_home(home).load(server)
    offered = None if seen is None else seen.tools_for(server)
    return ServerView(
        name=server.name,
        transport="stdio" if server.is_local else "http",
        place=server.place,
        origin=server.origin,
        enabled=own.enabled,
        required=own.required,
        trusted=own.trusted,
        approval=own.approval,
        tools=None if offered is None else len(offered),
        tokens=None if offered is None else sum(map(tool_tokens, offered)),
        protocol="" if seen is None else seen.version,
    )


def tool_tokens(tool: ToolRecord) -> int:
    """Return about what a tool takes of every request in which it is offered directly."""
    return approx_tokens(len(tool.description) + len(bytes(tool.parameters)) + _OVERHEAD)
