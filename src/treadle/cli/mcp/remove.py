"""`treadle mcp remove`: remove an MCP server from the user's settings."""

from __future__ import annotations

import click

from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import say, say_json
from .server_tables import remove_server

__all__ = ["command"]


@click.command("remove", epilog=examples("treadle mcp remove docs"))
@click.argument("name", metavar="SERVER")
@as_json
@click.pass_obj
def command(home: Home, name: str, as_json: bool) -> None:
    """Remove a server from your `config.toml`."""
    path = remove_server(home.path, name)
    if as_json:
        say_json({"removed": name, "file": str(path)})
        return
    say(f"removed {name} from {path}")
