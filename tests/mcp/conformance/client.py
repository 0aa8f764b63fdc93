"""The client that the conformance suite starts: it logs in as users do, or runs a turn.

Owns what each scenario needs besides. The suite names the scenario and what belongs to it in
variables, and the address of its server as the last argument.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mcp import Client
from tests.harness.scenes import call, open_thread, scripted
from tests.mcp.authorization import browse
from tests.mcp.scenes import servers_of
from treadle.config.mcp_settings import McpOAuthSettings, McpServerSettings
from treadle.harness.events import QuestionsAsked
from treadle.mcp.login import auth_for, login
from treadle.mcp.server_auth import LoginNeeded
from treadle.mcp.server_settings import McpServer
from treadle.policy.auth.secrets import SecretStore
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions

_SECRET = "CLIENT_SECRET"
_DOCUMENT = "https://conformance-test.local/client-metadata.json"
_TRIES = 3


async def call_tools(server: McpServer, secrets: SecretStore) -> None:
    """What a turn does: connect, list, call the first tool."""
    auth = auth_for(server, secrets.home, secrets=secrets)
    assert server.settings.url is not None
    async with (
        httpx2.AsyncClient(auth=auth, timeout=30) as http,
        Client(
            streamable_http_client(server.settings.url, http_client=http), mode="auto"
        ) as client,
    ):
        for tool in (await client.list_tools()).tools[:1]:
            await client.call_tool(tool.name, {})


async def run_turn(server: McpServer, arguments: dict[str, Any]) -> None:
    """Run a turn whose model calls every tool; its user takes what forms suggest."""
    with tempfile.TemporaryDirectory() as scratch:
        async with servers_of(Path(scratch), server) as servers:
            assert await servers.prepare() == ()
            names = [each.name for each in servers.snapshots[server.name].tools]
            calls = [call(f"mcp__{server.name}__{name}", **arguments) for name in names]
            model = scripted(*(Answer(calls=(each,)) for each in calls), Answer(text="done"))
            tools = ToolOptions(tools=(), mcp=servers)
            async with open_thread(Path(scratch), model, tools=tools) as thread:
                async for event in thread.run("go"):
                    if isinstance(event, QuestionsAsked):
                        thread.answer(event.id, {})


async def main(url: str) -> None:
    """Do what the scenario is about."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if scenario.startswith("auth/"):
        await log_in_and_call(url, scenario)
    else:
        settings = McpServerSettings(url=url, approval="approve")
        arguments = {"a": 2, "b": 3} if scenario == "tools_call" else {}
        await run_turn(McpServer(name="suite", settings=settings), arguments)


async def log_in_and_call(url: str, scenario: str) -> None:
    """Log in, call, and log in again where the server asks for more."""
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    own = McpOAuthSettings()
    if scenario == "auth/basic-cimd":
        own = McpOAuthSettings(client_id=_DOCUMENT)
    elif "client_id" in given:
        os.environ[_SECRET] = given.get("client_secret", "")
        own = McpOAuthSettings(client_id=given["client_id"], client_secret_variable=_SECRET)
    server = McpServer(name="suite", settings=McpServerSettings(url=url, oauth=own))
    with tempfile.TemporaryDirectory() as home:
        secrets = SecretStore(Path(home), None)
        scopes: tuple[str, ...] = ()
        for _ in range(_TRIES):
            try:
                await call_tools(server, secrets)
            except* LoginNeeded as group:
                (needed,) = leaves(group)
                scopes = (*scopes, *needed.scopes)
                await login(server, secrets.home, browse, scopes=scopes, secrets=secrets)
            else:
                return


def leaves(group: BaseExceptionGroup[LoginNeeded]) -> list[LoginNeeded]:
    """Return the errors in a group of groups."""
    found: list[LoginNeeded] = []
    for each in group.exceptions:
        found += leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found[:1]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
