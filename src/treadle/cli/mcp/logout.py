"""`treadle mcp logout`: forget the login to an MCP server."""

from __future__ import annotations

import click

from ...mcp.login import logout
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import say, say_json
from .known_servers import find_server

__all__ = ["command"]


@click.command("logout", epilog=examples("treadle mcp logout docs"))
@click.argument("name", metavar="SERVER")
@as_json
@runs
async def command(home: Home, name: str, as_json: bool) -> None:
    """Forget the tokens of a server."""
    removed = await logout(find_server(home, name), home.path)
    if as_json:
        say_json({"server": name, "removed": removed})
    else:
        say(f"logged out of {name}" if removed else f"there was no login to {name}")
