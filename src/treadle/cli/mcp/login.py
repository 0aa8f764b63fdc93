"""`treadle mcp login`: log in to an MCP server over HTTP."""

from __future__ import annotations

import click

from ...mcp.login import login
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import printable, say, say_json
from .known_servers import find_server

__all__ = ["command"]


@click.command("login", epilog=examples("treadle mcp login docs --scope read"))
@click.argument("name", metavar="SERVER")
@click.option("--scope", "scopes", multiple=True, help="Ask for this right, too.")
@as_json
@runs
async def command(home: Home, name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Log in to a server with a browser; the tokens go into the keyring or the vault."""

    async def show(url: str) -> None:
        click.echo(f"treadle: open this address to log in: {printable(url)}", err=True)

    report = await login(find_server(home, name), home.path, show, scopes=scopes)
    if as_json:
        say_json(report)
    elif report.needed:
        say(f"logged in to {name} by {printable(report.issuer)}")
    else:
        say(f"{name} asks for no login")
