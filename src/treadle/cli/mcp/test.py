"""`treadle mcp test`: connect to an MCP server and show what it offers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import counted, one_line, printable, say, say_json
from .connecting import see_server
from .known_servers import find_server

__all__ = ["command"]


@click.command("test", epilog=examples("treadle mcp test docs", "treadle mcp test docs --json"))
@click.argument("name", metavar="SERVER")
@as_json
@runs
async def command(home: Home, name: str, as_json: bool) -> int:
    """Connect to a server, list what it offers, and store that.

    TOKENS is what a tool would take of every request if it were offered directly. The exit code
    is 1 when the server is not available.
    """
    server = await asyncio.to_thread(find_server, home, name)
    seen = await see_server(server, home.path, await asyncio.to_thread(Path.cwd))
    if as_json:
        say_json(seen)
    elif not seen.ok:
        click.echo(f"treadle: {name} is not available: {printable(seen.reason)}", err=True)
    else:
        say(
            f"{name}: protocol {seen.protocol}, {seen.milliseconds} ms, "
            f"{counted(len(seen.tools), 'tool')} of about {seen.tokens:,} tokens"
        )
        for tool in seen.tools:
            asks = "asks" if tool.asks else "runs"
            say(f"  {printable(tool.name)} ({asks}, {tool.tokens}): {one_line(tool.description)}")
        for note in seen.notes:
            say(f"  look at this: {printable(note)}")
    return 0 if seen.ok else 1
