"""MCP servers in the chat: their state, their prompts as commands, and `@server:uri`.

Owns what a user is shown of them. Invariant: nothing of a server reaches the model as the user's
words unless the user named it in this line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from ...core.errors import TreadleError
from ...prompt.mentioned_files import mentioned_file
from ..output import counted, one_line
from .mentions import Said

if TYPE_CHECKING:
    from ...mcp.servers import McpServers
    from .chat_session import ChatSession
    from .slash import Slash

__all__ = ["call_prompt", "prompt_words", "show_servers", "with_resources"]

_RESOURCE = re.compile(r"(?<!\S)@([A-Za-z0-9_-]{1,64}):(\S+)")


async def show_servers(slash: Slash, rest: str) -> None:
    """Show each server with its state, and why it is not there."""
    del rest
    session = slash.session
    servers = _servers(session)
    if servers is None:
        session.screen.say("no MCP servers; `treadle mcp add NAME -- COMMAND` adds one")
        return
    rows = {
        each.name: one_line(
            " · ".join(
                filter(None, (each.state, counted(each.tools, "tool"), each.protocol, each.reason))
            ),
            160,
        )
        for each in servers.status()
    }
    session.screen.pairs(rows)


async def call_prompt(slash: Slash, name: str, rest: str) -> bool:
    """Send the prompt of a server that has this name; return whether there is one."""
    servers = _servers(slash.session)
    if servers is None or not name.startswith("mcp__"):
        return False
    from ...mcp.server_prompts import fetch_prompt, prompt_names

    names = prompt_names(servers.snapshots)
    # Also as its server writes it: names of commands have no other characters.
    found = names.get(name) or names.get(re.sub(r"[^A-Za-z0-9_]", "_", name))
    if found is None:
        return False
    try:
        text = await fetch_prompt(servers, *found, rest)
    except TreadleError as error:
        slash.session.screen.trouble(str(error))
        return True
    await slash.session.say(Said(f"/{name} {rest}".rstrip(), (text,)), is_shown=True)
    return True


def prompt_words(slash: Slash) -> Iterator[tuple[str, str]]:
    """Yield the names of prompts, each with what it is for."""
    servers = _servers(slash.session)
    if servers is None:
        return
    from ...mcp.server_prompts import prompt_names

    for name, (_, prompt) in sorted(prompt_names(servers.snapshots).items()):
        wanted = " ".join(each[0].upper() for each in prompt.arguments)
        yield f"/{name}", one_line(" ".join(filter(None, (wanted, prompt.description))), 100)


async def with_resources(session: ChatSession, said: Said) -> Said:
    """Return what a line says, with the resources that it names as ``@server:uri``."""
    servers = _servers(session)
    if servers is None:
        return said
    from ...mcp.resources import read_resource

    for server, uri in dict.fromkeys(_RESOURCE.findall(said.shown)):
        if server not in servers.servers:
            continue
        try:
            text = await read_resource(servers, server, uri)
        except TreadleError as error:
            session.screen.trouble(str(error))
            continue
        part = mentioned_file(f"{server}:{uri}", text).text
        said = msgspec.structs.replace(said, parts=(*said.parts, part))
    return said


def _servers(session: ChatSession) -> McpServers | None:
    """Return the servers of the thread; the command line opens no others than these."""
    servers = session.thread.policy.options.tools.mcp
    if servers is None:
        return None
    from ...mcp.servers import McpServers

    return servers if isinstance(servers, McpServers) else None
