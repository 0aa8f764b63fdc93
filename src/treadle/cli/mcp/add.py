"""`treadle mcp add`: add an MCP server to the user's settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...config.mcp_settings import McpApproval, McpServerSettings
from ...core.errors import InvalidOption
from ...mcp.server_settings import McpServer, check_server, shows_secret
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import counted, printable, say, say_json
from .connecting import see_server
from .server_tables import add_server

if TYPE_CHECKING:
    from .connecting import SeenServer

__all__ = ["command"]


@click.command(
    "add",
    epilog=examples(
        "treadle mcp add files -- npx -y @modelcontextprotocol/server-filesystem .",
        "treadle mcp add docs --url https://docs.example.org/mcp --bearer-token-variable DOCS",
    ),
)
@click.argument("name", metavar="NAME")
@click.argument("words", metavar="[-- COMMAND ARGS…]", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="The address of a server that speaks streamable HTTP.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the command.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="A header for the address.")
@click.option("--bearer-token-variable", metavar="NAME", help="A variable that holds a token.")
@click.option("--trusted", is_flag=True, help="Believe what it says of its tools.")
@click.option("--required", is_flag=True, help="Fail where it does not start.")
@click.option("--cwd", help="Where the command starts; `.` is the directory of the thread.")
@click.option(
    "--approval",
    type=click.Choice(["auto", "prompt", "writes", "approve"]),
    default="auto",
    help="When you are asked before a call  [default: auto]",
)
@click.option("--offline", is_flag=True, help="Do not connect now.")
@as_json
@click.pass_obj
def command(
    home: Home,
    *,
    name: str,
    words: tuple[str, ...],
    url: str | None,
    env: tuple[str, ...],
    header: tuple[str, ...],
    bearer_token_variable: str | None,
    trusted: bool,
    required: bool,
    cwd: str | None,
    approval: McpApproval,
    offline: bool,
    as_json: bool,
) -> None:
    """Add a server: a command to start, or the address of one.

    A command runs outside the sandbox, with your rights. Write secrets as `${VARIABLE}`.
    """
    if words and url:
        raise InvalidOption("a server is a command or an address; leave --url or the command out")
    settings = McpServerSettings(
        command=words[0] if words else None,
        args=words[1:],
        env=_pairs("--env", env),
        cwd=cwd,
        url=url,
        headers=_pairs("--header", header),
        bearer_token_variable=bearer_token_variable,
        approval=approval,
        trusted=trusted,
        required=required,
    )
    if not words and not url:
        raise InvalidOption("a server is a command or an address; give `-- COMMAND`, or --url")
    server = McpServer(name=name, settings=settings)
    check_server(server)
    _check_secrets(settings)
    path = add_server(home.path, name, settings)
    if not as_json:
        say(f"added {name} to {path}")
    if words and not as_json:
        say("it runs outside the sandbox, with your rights, when a thread needs it")
    seen = None if offline else _see(home, server)
    if as_json:
        say_json({"added": name, "file": str(path), "seen": seen})
    elif seen is not None and seen.ok:
        say(f"it offers {counted(len(seen.tools), 'tool')}, of about {seen.tokens:,} tokens")
    elif seen is not None:
        again = f"`treadle mcp test {name}` tries again"
        click.echo(f"treadle: {name} is not available: {printable(seen.reason)}; {again}", err=True)


def _see(home: Home, server: McpServer) -> SeenServer:
    return asyncio.run(see_server(server, home.path, Path().absolute()))


def _check_secrets(settings: McpServerSettings) -> None:
    """Refuse a secret that would be written into a file."""
    for name, text in (*settings.env.items(), *settings.headers.items()):
        if shows_secret(name, text):
            raise InvalidOption(
                f"{name!r} looks like a secret; put it into a variable and write ${{VARIABLE}}"
            )


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidOption(f"{option} {text!r} has no value; write NAME=VALUE")
        found[name] = value
    return found
