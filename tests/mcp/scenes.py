"""What the tests of MCP servers have in common: servers of our own, and threads that use them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.scenes import open_thread
from treadle import Thread
from treadle.config.mcp_settings import McpServerSettings
from treadle.mcp.server_settings import McpServer
from treadle.mcp.servers import McpServers
from treadle.testing.scripted import ScriptedModel
from treadle.thread.options import ToolOptions

SERVER = Path(__file__).with_name("echo_server.py")


class OwnServer:
    """A server of our own, and the file that says how it behaves."""

    def __init__(self, place: Path, name: str = "echo", **plan: Any) -> None:
        self.name = name
        self.file = place / f"{name}.json"
        self.plan = plan
        self._write()

    def change(self, **plan: Any) -> None:
        """Change how it behaves, also while it runs."""
        self.plan |= plan
        self._write()

    def _write(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.plan))
        new.replace(self.file)

    def server(self, **settings: Any) -> McpServer:
        """Return it as a server of a configuration; nobody is asked before its calls."""
        settings = {"approval": "approve"} | settings
        command = (sys.executable, "-S", "-E", str(SERVER), str(self.file))
        return McpServer(
            name=self.name,
            settings=McpServerSettings(command=command[0], args=command[1:], **settings),
        )


def servers_of(place: Path, *servers: McpServer | OwnServer, **options: Any) -> McpServers:
    """Return servers that keep what they know in the home of `place`."""
    named = [each.server() if isinstance(each, OwnServer) else each for each in servers]
    home = place / "home"
    home.mkdir(exist_ok=True)
    return McpServers(named, home=home, cwd=place, **({"backoff": (0.05,) * 3} | options))


@asynccontextmanager
async def thread_with(
    place: Path, model: ScriptedModel, *servers: McpServer | OwnServer, **options: Any
) -> AsyncIterator[Thread]:
    """A thread that has nothing but the tools of some servers."""
    mcp = {key: options.pop(key) for key in ("direct_tools", "environ") if key in options}
    async with (
        servers_of(place, *servers, **mcp) as opened,
        open_thread(place, model, tools=ToolOptions(tools=(), mcp=opened), **options) as thread,
    ):
        yield thread


async def until(reached: Callable[[], bool]) -> None:
    """Wait for something that happens in another process."""
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def tool_names(body: bytes) -> list[str]:
    """Return the names of the tools in a request."""
    return [tool["name"] for tool in json.loads(body).get("tools", [])]


def outputs(body: bytes) -> list[str]:
    """Return the outputs of calls in a request."""
    items = json.loads(body)["input"]
    return [each["output"] for each in items if each["type"] == "function_call_output"]


def texts(body: bytes) -> str:
    """Return all words of the messages in a request."""
    items = json.loads(body)["input"]
    parts = [part for each in items if each["type"] == "message" for part in each["content"]]
    return "\n".join(part.get("text", "") for part in parts)
