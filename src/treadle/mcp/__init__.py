"""MCP servers as sources of tools: settings, connections, snapshots, calls and search.

Importing the package loads nothing; `McpServers`, `McpServer` and `McpServerSettings` load with
their modules at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from ..config.mcp_settings import McpServerSettings
    from .server_settings import McpServer
    from .servers import McpServers

__all__ = ["McpServer", "McpServerSettings", "McpServers"]

_HOMES = {
    "servers": "McpServers",
    "server_settings": "McpServer McpServerSettings",
}

__getattr__ = lazy_attributes(__name__, _HOMES)
