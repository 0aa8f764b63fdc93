"""`treadle mcp get`: show one MCP server."""

from __future__ import annotations

import click
import msgspec

from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import printable, say, say_json
from .known_servers import find_server, view_server

__all__ = ["command"]


@click.command("get", epilog=examples("treadle mcp get docs"))
@click.argument("name", metavar="SERVER")
@as_json
@click.pass_obj
def command(home: Home, name: str, as_json: bool) -> None:
    """Show one server and its settings."""
    view = view_server(find_server(home, name), home.path)
    if as_json:
        say_json(view)
        return
    for key, value in msgspec.structs.asdict(view).items():
        shown = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        if value is None:
            shown = f"not known; `treadle mcp test {name}` asks it"
        say(f"{key:10} {printable(shown)}")
