"""The MCP servers of the threads that the command line opens.

Owns when they are opened at all. Invariant: where no server is configured, nothing of MCP is
loaded but what looks for a project's file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config import Config
from ..core.errors import ConfigError
from ..core.files import is_there
from .output import one_line, printable

if TYPE_CHECKING:
    from ..mcp.server_settings import McpServer
    from ..mcp.servers import McpServers

__all__ = ["open_servers", "warn_of_servers"]


@asynccontextmanager
async def open_servers(
    config: Config, home: Path, cwd: Path, more: Sequence[McpServer] = ()
) -> AsyncIterator[McpServers | None]:
    """Open the servers of the settings and of a trusted project; None where there are none.

    `more` are further ones, which win over those of the same name.
    """
    if not (more or config.settings.mcp.servers or _has_file(cwd)):
        yield None
        return
    from ..mcp.servers import McpServers
    from .mcp.known_servers import servers_of

    enabled = [each for each in servers_of(config, home, cwd) if each.settings.enabled]
    enabled += more
    if not enabled:
        yield None
        return
    limit = config.settings.mcp.direct_tools
    async with McpServers(enabled, home=home, cwd=cwd, direct_tools=limit) as servers:
        yield servers


def warn_of_servers(home: Path, cwd: Path) -> None:
    """Warn of servers of the project that nobody trusts as they are, or that nobody can read."""
    if not _has_file(cwd):
        return
    from ..mcp.server_files import find_project_servers
    from .mcp.known_servers import project_servers

    try:
        find_project_servers(cwd)
    except ConfigError as error:
        said = printable(f"MCP servers of this project are not used: {error}")
        click.echo(f"treadle: {said}", err=True)
    if waiting := project_servers(home, cwd, trusted=False):
        names = ", ".join(each.name for each in waiting[:5])
        click.echo(
            f"treadle: MCP servers of this project are not used: {one_line(names)}; read "
            f"{printable(str(waiting[0].file))}, then `treadle mcp trust` lets them count",
            err=True,
        )


def _has_file(cwd: Path) -> bool:
    return any(is_there(place / ".mcp.json") for place in (cwd, *cwd.parents))
