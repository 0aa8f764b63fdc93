"""`treadle mcp list`: list the MCP servers."""

from __future__ import annotations

from pathlib import Path

import click

from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..mcp_threads import warn_of_servers
from ..output import Column, say, say_json, table
from .known_servers import known_servers, view_server

__all__ = ["command"]

_COLUMNS = (
    Column("SERVER"),
    Column("STATE"),
    Column("TOOLS", right=True),
    Column("TOKENS", right=True, spare=1),
    Column("APPROVAL", spare=2),
    Column("ORIGIN", spare=3),
    Column("PLACE", gives=True),
)


@click.command("list", epilog=examples("treadle mcp list", "treadle mcp list --json"))
@as_json
@click.pass_obj
def command(home: Home, as_json: bool) -> None:
    """List the servers of your settings and of a trusted project.

    TOOLS and TOKENS are what a server offered when it was seen last, and what that would take of
    every request if all of it were offered directly.
    """
    warn_of_servers(home.path, Path().absolute())
    views = [view_server(server, home.path) for server in known_servers(home)]
    if as_json:
        say_json(views)
        return
    if not views:
        say("no MCP servers; `treadle mcp add NAME -- COMMAND` adds one")
        return
    rows = [
        [
            view.name,
            "on" if view.enabled else "off",
            _figure(view.tools),
            _figure(view.tokens),
            view.approval,
            view.origin,
            view.place,
        ]
        for view in views
    ]
    table(_COLUMNS, rows)


def _figure(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
