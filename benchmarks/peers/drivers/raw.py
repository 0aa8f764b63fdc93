"""Raw asyncio and msgspec, the request an append-only buffer of bytes: as little as can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
from bare import TOOLS, Item, called, read_event, read_item
from common import INSTRUCTIONS, MODEL, Job, Scenarios, drive

_encode = msgspec.json.Encoder().encode
_OPENING = {"model": MODEL, "instructions": INSTRUCTIONS, "tools": TOOLS, "stream": True}


class Raw:
    """Bytes that only grow, over a connection that is kept."""

    def __init__(
        self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader, self.writer = reader, writer
        self.head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % (
            path.encode()
        )
        self.body = bytearray(_encode({**_OPENING, "store": False})[:-1] + b',"input":[')

    async def turn(self, said: str) -> None:
        """Requests until an answer has no calls."""
        self.put(_encode({"type": "message", "role": "user", "content": said}))
        while calls := await self.ask():
            for call in calls:
                self.put(_encode(called(call)))

    def put(self, item: bytes) -> None:
        """Add an item."""
        if not self.body.endswith(b"["):
            self.body += b","
        self.body += item

    async def ask(self) -> list[Item]:
        """One request; the calls of its answer."""
        self.writer.write(self.head + b"Content-Length: %d\r\n\r\n" % (len(self.body) + 2))
        self.writer.write(self.body + b"]}")
        await self.reader.readuntil(b"\r\n\r\n")
        calls: list[Item] = []
        while size := int(await self.reader.readline(), 16):
            chunk = await self.reader.readexactly(size + 2)
            event = read_event(chunk[chunk.index(b"data: ") + 6 : -4])
            if event.type == "response.output_item.done":
                self.put(event.item)
                item = read_item(event.item)
                if item.type == "function_call":
                    calls.append(item)
        await self.reader.readline()
        return calls


@asynccontextmanager
async def opened(job: Job, script: str, _: str) -> AsyncIterator[Raw]:
    """A conversation over a connection of its own."""
    address = urlsplit(job.base(script))
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 20)
    try:
        yield Raw(f"{address.path}/responses", reader, writer)
    finally:
        writer.close()


if __name__ == "__main__":
    drive("msgspec", Scenarios(opened))
