"""`treadle mcp`: the group of the commands about MCP servers."""

from __future__ import annotations

import click

from ..command_options import as_json
from ..lazy_group import LazyGroup, examples

__all__ = ["MCP_COMMANDS", "command"]

MCP_COMMANDS = {
    "add": "Add a server: a command to start, or an address.",
    "list": "List the servers.",
    "get": "Show one server.",
    "remove": "Remove a server from your settings.",
    "test": "Connect to a server and show what it offers.",
    "trust": "Trust the servers of a project's `.mcp.json`.",
    "import": "Copy the servers of Codex, of Claude, or of a file.",
    "login": "Log in to a server over HTTP.",
    "logout": "Forget the login to a server.",
    "serve": "Be a server: other agents run turns here and search all threads.",
}


@click.group(
    "mcp",
    cls=LazyGroup,
    table=MCP_COMMANDS,
    package="treadle.cli.mcp",
    invoke_without_command=True,
    epilog=examples(
        "treadle mcp add docs --url https://docs.example.org/mcp",
        "treadle mcp add files --cwd . -- npx -y @modelcontextprotocol/server-filesystem .",
        "treadle mcp list",
    ),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Add, list and test MCP servers, whose tools the model may call; alone, list them.

    A server that is a command runs outside the sandbox, with your rights and few of your
    environment variables. Add only what you would run yourself.
    """
    if ctx.invoked_subcommand is None:
        from ..mcp.list import command as list_command

        ctx.invoke(list_command, as_json=as_json)
