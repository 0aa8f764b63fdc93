"""Drivers of MCP servers: turns on a harness, beside servers of which a snapshot is known.

Owns how the servers of a row are made and what is observed in its requests. Invariant: no server
runs, so that what a request says of one can only come from its snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....config.mcp_settings import McpServerSettings
from ....harness.events import TurnCompleted
from ....mcp.server_settings import McpServer
from ....mcp.servers import McpServers
from ....mcp.snapshot import ServerSnapshot
from ....mcp.tool_list import read_tools, usable_entries
from ....thread.options import ToolOptions
from ..fixture import MatrixFixture, answers
from .sent_requests import extends, outputs

__all__ = ["turns"]

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


async def turns(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Run a turn for each list of tools, which the servers have from then on."""
    assert fixture is not None
    fixture.play(*answers(given))
    nowhere = McpServerSettings(command="/nonexistent/server", load="search", approval="approve")
    server = McpServer(name="docs", settings=nowhere)
    statuses: list[str] = []
    async with McpServers([server], backoff=()) as servers:
        options = ToolOptions(mcp=servers, tools=None)
        servers.adopt(_snapshot(server, given["lists"][0]))
        async with fixture.open_thread(tools=options) as thread:
            for number, names in enumerate(given["lists"]):
                servers.snapshots["docs"] = _snapshot(server, names)
                events = await fixture.run_turn(thread, f"Question {number}?")
                statuses += [each.status for each in events if isinstance(each, TurnCompleted)]
    bodies = [request.body.decode() for request in fixture.requests]
    offered = ('"name":"tool_search"', '"name":"tool_call"', '"name":"mcp__')
    said = [str(each) for each in outputs(fixture.requests[-1])]
    return {
        "statuses": statuses,
        "offered": [[body.count(name) for name in offered] for body in (bodies[0], bodies[-1])],
        "told": [body.count("- docs: ") for body in (bodies[0], bodies[-1])],
        "found": [name for name in given["look_for"] if any(name in each for each in said)],
        "extends": extends(fixture.requests),
    }


def _snapshot(server: McpServer, names: list[str]) -> ServerSnapshot:
    entries = [{"name": name, "description": name, "inputSchema": _SCHEMA} for name in names]
    tools, _ = read_tools(usable_entries(entries))
    return ServerSnapshot(
        server=server.name, made_for=server.digest, version="2026-07-28", tools=tools
    )
