from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests import fork_server
from tests.cli.terminal import SCRIPT
from tests.harness.scenes import call, hear, scripted
from treadle.config.mcp_settings import McpServerSettings, McpToolSettings
from treadle.harness.events import Event, ToolFinished, ToolStarted
from treadle.mcp.server_settings import McpServer
from treadle.testing.script import Answer

from .scenes import outputs, servers_of, thread_with

WHOLE = {"type": "object", "properties": {"text": {"type": "string"}}}
BROKEN = {"name": "broken", "inputSchema": "none"}
ECHO = {"name": "echo", "inputSchema": WHOLE}
TEXT = {"type": "string", "x-mcp-header": "Text"}
ROUTED = {"name": "routed", "inputSchema": {"type": "object", "properties": {"text": TEXT}}}


class HttpServer:
    """A stateless server of our own: one POST for each message."""

    def __init__(self, *, modern: bool) -> None:
        self.modern = modern
        self.headers: list[dict[str, str]] = []
        self.session = ""
        """The only session that it knows; another one each time that it is started."""
        self.silence = 0.0
        """Seconds before a call is answered."""
        self.tools: list[object] = [BROKEN, ECHO]
        self.listing = asyncio.Event()
        """Set where its list may be told."""
        self.listing.set()
        self.url = ""

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        match message.get("method"):
            case "server/discover" if self.modern:
                versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                return {**versions, **self._extra}
            case "initialize" if not self.modern:
                info = {"serverInfo": {"name": "h", "version": "1"}}
                return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, **info}
            case "tools/list":
                return {"tools": self.tools, **self._extra}
            case "tools/call":
                text = message["params"]["arguments"].get("text", "")
                done = {"resultType": "complete"} if self.modern else {}
                return {"content": [{"type": "text", "text": text}], **done}
        return None

    @property
    def _extra(self) -> dict[str, Any]:
        told = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return told if self.modern else {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        while line := (await reader.readline()).decode():
            headers: dict[str, str] = {"": line.split()[0]}
            while (text := (await reader.readline()).decode().strip()) != "":
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.headers.append(headers)
            if b'"tools/call"' in body:
                await asyncio.sleep(self.silence)
            if b'"tools/list"' in body:
                await self.listing.wait()
            writer.write(self._reply(headers, body))
            await writer.drain()
        writer.close()

    def _reply(self, headers: dict[str, str], body: bytes) -> bytes:
        if headers[""] != "POST":
            return b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n"
        message = json.loads(body)
        begins = message.get("method") == "initialize"
        if self.session and not begins and headers.get("mcp-session-id") != self.session:
            return b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"
        if "id" not in message:
            return b"HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n"
        result = self.answer(message)
        error = {"code": -32601, "message": "Method not found"}
        told = {"error": error} if result is None else {"result": result}
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
        if self.session and begins:
            head += f"\r\nmcp-session-id: {self.session}"
        return head.encode() + b"\r\n\r\n" + data


@asynccontextmanager
async def serving(*, modern: bool) -> AsyncIterator[HttpServer]:
    own = HttpServer(modern=modern)
    server = await asyncio.start_server(own.serve, "127.0.0.1", 0)
    own.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    async with server:
        yield own


@pytest.mark.parametrize(("modern", "version"), [(True, "2026-07-28"), (False, "2025-11-25")])
async def test_http_servers_of_both_eras_are_called_with_their_headers(tmp_path, modern, version):
    async with serving(modern=modern) as own:
        settings = McpServerSettings(
            url=own.url,
            headers={"X-Team": "${TEAM}"},
            bearer_token_variable="TOKEN_OF_MINE",
            approval="approve",
        )
        server = McpServer(name="web", settings=settings)
        model = scripted(
            Answer(calls=(call("mcp__web__echo", text="over http"),)), Answer(text="done")
        )
        environ = {"TEAM": "core", "TOKEN_OF_MINE": "t-0123456789"}
        async with thread_with(tmp_path, model, server, environ=environ) as thread:
            await hear(thread, "go")
            assert outputs(model.requests[-1].body) == ["over http"]
            servers = thread.policy.options.tools.mcp
            assert servers is not None
            snapshot = servers.snapshots["web"]
        assert [tool.name for tool in snapshot.tools] == ["echo"]
        assert snapshot.version == version
        assert {each.get("x-team") for each in own.headers} == {"core"}
        assert {each.get("authorization") for each in own.headers} == {"Bearer t-0123456789"}


async def test_arguments_that_a_server_wants_in_headers_are_there_in_the_first_call_too(tmp_path):
    async with serving(modern=True) as own:
        own.tools = [ROUTED]
        server = McpServer(name="web", settings=McpServerSettings(url=own.url, approval="approve"))
        async with servers_of(tmp_path, server) as servers:
            await servers.prepare()
        # The next process knows the tools, and calls before the server has told them again.
        own.listing.clear()
        own.headers.clear()
        model = scripted(
            Answer(calls=(call("mcp__web__routed", text="north"),)), Answer(text="done")
        )
        async with thread_with(tmp_path, model, server) as thread:

            def hear_call(event: Event) -> None:
                if isinstance(event, ToolStarted):
                    asyncio.get_running_loop().call_later(0.2, own.listing.set)

            await hear(thread, "go", at=hear_call)
        assert outputs(model.requests[-1].body) == ["north"]
        (called,) = (each for each in own.headers if each.get("mcp-method") == "tools/call")
        assert called["mcp-param-text"] == "north"


async def test_an_address_where_nobody_listens_is_a_reason(tmp_path):
    async with serving(modern=True) as own:
        url = own.url
    server = McpServer(name="web", settings=McpServerSettings(url=url))
    async with servers_of(tmp_path, server) as servers:
        (problem,) = await servers.prepare()
    assert problem.startswith("the MCP server 'web' is not available: ")


async def test_one_that_was_started_again_gets_a_new_session(tmp_path):
    async with serving(modern=False) as own:
        own.session = "first"
        server = McpServer(name="web", settings=McpServerSettings(url=own.url, approval="approve"))
        model = scripted(
            Answer(calls=(call("mcp__web__echo", text="one"),)),
            Answer(calls=(call("mcp__web__echo", text="two"),)),
            Answer(text="done"),
        )
        async with thread_with(tmp_path, model, server) as thread:

            def restart(event: Event) -> None:
                if isinstance(event, ToolFinished):
                    own.session = "second"

            await hear(thread, "go", at=restart)
        assert outputs(model.requests[-1].body) == ["one", "two"]


async def test_a_call_may_be_silent_for_its_own_limit(tmp_path):
    async with serving(modern=True) as own:
        own.silence = 0.5
        settings = McpServerSettings(
            url=own.url,
            approval="approve",
            timeout=0.2,
            tools={"echo": McpToolSettings(timeout=60.0)},
        )
        model = scripted(
            Answer(calls=(call("mcp__web__echo", text="after a while"),)), Answer(text="done")
        )
        async with thread_with(tmp_path, model, McpServer(name="web", settings=settings)) as thread:
            await hear(thread, "go")
        assert outputs(model.requests[-1].body) == ["after a while"]


async def test_an_answer_that_is_no_message_is_one_line_on_the_terminal(tmp_path):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
        kind = b"content-type: application/json\r\nconnection: close"
        writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n\r\n{nonsense")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        command = [str(SCRIPT), "--home", str(tmp_path), "mcp", "add", "web", "--url", url]
        done = await asyncio.to_thread(fork_server.run, command, cwd=tmp_path)
    assert done.stderr.decode() == (
        "treadle: web is not available: it answers with what is no message of the protocol; "
        "`treadle mcp test web` tries again\n"
    )
