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
from collections.abc import Sequence
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
from treadle.mcp.tool_list import ToolRecord
from treadle.policy.auth.secrets import SecretStore
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions

_SECRET = "CLIENT_SECRET"
_DOCUMENT = "https://conformance-test.local/client-metadata.json"
_SCHEMA_ECHO = "json_schema_echo"
"""A tool that wants the schema of the other one, as we keep it."""
_TRIES = 3


def given() -> dict[str, Any]:
    """Return what the suite gives with the scenario."""
    found: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    return found


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


def arguments_for(tool: str, tools: Sequence[ToolRecord]) -> dict[str, Any]:
    """Return the arguments of a call that the suite leaves to us."""
    if tool != _SCHEMA_ECHO:
        return {"a": 2, "b": 3} if tool == "add_numbers" else {}
    return {"schema": next(each.parameters for each in tools if each.name != tool)}


async def run_turn(server: McpServer) -> None:
    """Run a turn whose model calls what the suite names, or every tool.

    Its user takes what forms suggest.
    """
    with tempfile.TemporaryDirectory() as scratch:
        async with servers_of(Path(scratch), server) as servers:
            # A tool that is left out is told of; the others are there.
            await servers.prepare()
            known = servers.snapshots[server.name].tools
            wanted = given().get("toolCalls") or [
                {"name": each.name, "arguments": arguments_for(each.name, known)} for each in known
            ]
            calls = (call(f"mcp__{server.name}__{e['name']}", **e["arguments"]) for e in wanted)
            model = scripted(*(Answer(calls=(each,)) for each in calls), Answer(text="done"))
            offered = ToolOptions(tools=(), mcp=servers)
            async with open_thread(Path(scratch), model, tools=offered) as thread:
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
        await run_turn(McpServer(name="suite", settings=settings))


async def log_in_and_call(url: str, scenario: str) -> None:
    """Log in, call, and log in again where the server asks for more."""
    own, told = McpOAuthSettings(), given()
    if scenario == "auth/basic-cimd":
        own = McpOAuthSettings(client_id=_DOCUMENT)
    elif "client_id" in told:
        os.environ[_SECRET] = told.get("client_secret", "")
        own = McpOAuthSettings(client_id=told["client_id"], client_secret_variable=_SECRET)
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
