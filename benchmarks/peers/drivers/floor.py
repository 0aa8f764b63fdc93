"""The floor: bare aiohttp and msgspec. No log, no validation, no sandbox, no hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from bare import TOOLS, Item, called, read_event, read_item
from common import INSTRUCTIONS, MODEL, Job, Scenarios, drive

_encode = msgspec.json.Encoder().encode
HEADERS = {"content-type": "application/json", "authorization": "Bearer none"}


class Bare:
    """A list of items that grows, sent whole each time."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session, self.url = session, f"{base}/responses"
        self.items: list[Any] = []

    async def turn(self, said: str) -> None:
        """Requests until an answer has no calls."""
        self.items.append({"type": "message", "role": "user", "content": said})
        while calls := (await self.ask())[1]:
            self.items += map(called, calls)

    async def ask(self) -> tuple[str, list[Item]]:
        """One request; the text and the calls of its answer."""
        text: list[str] = []
        calls: list[Item] = []
        asked = {"model": MODEL, "instructions": INSTRUCTIONS, "tools": TOOLS, "stream": True}
        body = _encode({**asked, "store": False, "input": self.items})
        async with self.session.post(self.url, data=body, headers=HEADERS) as response:
            async for line in lines(response.content):
                event = read_event(line)
                if event.type == "response.output_text.delta":
                    text.append(event.delta)
                elif event.type == "response.output_item.done":
                    self.items.append(event.item)
                    item = read_item(event.item)
                    if item.type == "function_call":
                        calls.append(item)
        return "".join(text), calls


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The data of server-sent events."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.startswith(b"data: "):
                yield line[6:]


@asynccontextmanager
async def opened(job: Job, script: str, _: str) -> AsyncIterator[Bare]:
    """A conversation over a connection of its own."""
    async with aiohttp.ClientSession() as session:
        yield Bare(session, job.base(script))


if __name__ == "__main__":
    drive("aiohttp", Scenarios(opened))
