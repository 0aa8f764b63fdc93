"""`treadle mcp serve`: other agents run turns here and search what is remembered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ... import __version__
from ...core.errors import ConfigError, InvalidOption
from ...core.install import install_command
from ..cli_home import Home
from ..command_options import as_json, runs
from ..configured_home import ConfiguredHome
from ..lazy_group import examples
from ..output import say, say_json
from ..run_options import take_run_options, with_run_options

__all__ = ["command"]


@click.command(
    "serve",
    epilog=examples(
        "treadle mcp serve",
        "treadle mcp serve --sandbox read-only --root ~/code",
        "treadle mcp serve --http --port 4011",
    ),
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory that turns may work in, and below; can be repeated  [default: the current "
    "one]",
)
@click.option("--http", is_flag=True, help="Serve over HTTP, with a token.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="With --http: the port  [default: a free one]",
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME:PORT",
    multiple=True,
    help="With --http: another name that clients may call it by; can be repeated.",
)
@click.option(
    "--allow-origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="With --http: pages of this origin may call it; can be repeated.",
)
@with_run_options
@as_json
@runs
async def command(home: Home, **asked: Any) -> None:
    """Serve this home to other agents, over the Model Context Protocol.

    The agent that starts it talks to it on standard input and output; it ends when that closes.
    With --http it prints its address, and where the token is that clients send as
    `Authorization: Bearer …`: in TREADLE_MCP_TOKEN if that is set, else in a file. Tools run
    turns, read threads and search all of them. A call may narrow the rights that you give here,
    and never widen them.
    """
    try:
        from ...mcp_server.agent_server import AgentServer
        from ...mcp_server.http_serving import HttpPlace, find_token, serve_http
        from ...mcp_server.stdio_serving import serve_stdio
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the package {error.name!r} is not installed; {install_command('mcp')} adds it"
        ) from None
    names = ("host", "port", "hosts", "origins")
    place = HttpPlace(**{name: asked.pop(name) for name in names})
    roots, http, in_json = asked.pop("roots"), asked.pop("http"), asked.pop("as_json")
    if not http and place != HttpPlace():
        raise InvalidOption("an address, a port and names of callers are for --http; add it")
    options = take_run_options(asked)
    served = ConfiguredHome(home, options, tuple(roots) or (options.cwd or Path.cwd(),))
    server = AgentServer(served, __version__)
    if not http:
        await serve_stdio(server)
        return
    token = find_token(home.path, os.environ)
    await serve_http(server, place, token, lambda url: _tell(home.path, url, in_json=in_json))


def _tell(home: Path, url: str, *, in_json: bool) -> None:
    from ...mcp_server.http_serving import TOKEN_FILE, TOKEN_VARIABLE

    where = TOKEN_VARIABLE if os.environ.get(TOKEN_VARIABLE) else str(home / TOKEN_FILE)
    if in_json:
        say_json({"url": url, "token_in": where})
    else:
        say(f"{url}\nthe token is in {where}")
