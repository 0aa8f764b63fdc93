"""The inspector over real HTTP on the loopback interface, and what tests ask of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from treadle.config.settings import Price
from treadle.web.controlled_turns import ControlledHome
from treadle.web.inspected_home import ShownHome
from treadle.web.inspector import Inspector
from treadle.web.inspector_server import WebPlace, WebServer

PRICES = {
    "scripted:sonata": Price(input=3.0, cached_input=0.3, output=15.0),
    "scripted:sonata-mini": Price(input=0.25, cached_input=0.025, output=2.0),
}


@dataclass
class Web:
    """A server that listens, and a client that has its token."""

    server: WebServer
    inspector: Inspector
    client: httpx2.AsyncClient

    async def get(self, path: str, status: int = 200) -> Any:
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, path: str, body: object, status: int = 202) -> Any:
        answer = await self.client.post(path, json=body, headers={"x-treadle": "1"})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def thread(self, name: str) -> dict[str, Any]:
        """Return the newest thread of that name."""
        threads = (await self.get("/api/threads?limit=100"))["threads"]
        found: dict[str, Any] = next(each for each in threads if each["name"] == name)
        return found

    @asynccontextmanager
    async def listen(self, thread: str = "") -> AsyncIterator[Stream]:
        """Read the events of a thread."""
        path = f"/api/events?thread={thread}"
        async with self.client.stream("GET", path) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield Stream(answer.aiter_lines())


class Stream:
    """Events as they come."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self, name: str, **wanted: object) -> dict[str, Any]:
        """Return the next event of that name whose data has these values."""
        async with asyncio.timeout(30):
            told = ""
            async for line in self._lines:
                kind, _, value = line.partition(": ")
                if kind == "event":
                    told = value
                elif kind == "data" and told == name:
                    data: dict[str, Any] = json.loads(value)
                    if all(data.get(key) == each for key, each in wanted.items()):
                        return data
        raise AssertionError(f"the stream ended without {name!r}")

    async def live(self, kind: str) -> dict[str, Any]:
        """Return the next event of a running turn of that type."""
        while True:
            event: dict[str, Any] = (await self.next("live"))["event"]
            if event["type"] == kind:
                return event


@asynccontextmanager
async def serving(home: Path, control: ControlledHome | None = None) -> AsyncIterator[Web]:
    """Serve a home in this process."""
    inspector = Inspector(ShownHome(home, prices=PRICES), control)
    server = await asyncio.to_thread(WebServer, inspector, WebPlace())
    task = asyncio.create_task(server.serve())
    bearer = {"authorization": f"Bearer {server.keys.token}"}
    try:
        async with httpx2.AsyncClient(base_url=server.url, headers=bearer, timeout=60) as client:
            yield Web(server, inspector, client)
    finally:
        server.stop()
        await task


def footprint(home: Path) -> dict[str, str]:
    """Return the names of all files of a home, and what is in them."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }
