"""Raw asyncio and msgspec, the request an append-only buffer of bytes: as little as can be."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec
from bare import TOOL, Item, read_event, read_item, tick
from common import INSTRUCTIONS, MODEL, QUESTION, Job, drive

_encode = msgspec.json.Encoder().encode


class Conversation:
    """Bytes that only grow, over a connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        opening = {
            "model": MODEL,
            "instructions": INSTRUCTIONS,
            "tools": [TOOL],
            "stream": True,
            "store": False,
        }
        self.body = bytearray(_encode(opening)[:-1] + b',"input":[')
        self.path = b""

    def put(self, item: bytes) -> None:
        """Add an item."""
        if not self.body.endswith(b"["):
            self.body += b","
        self.body += item

    async def ask(self) -> list[Item]:
        """One request; the calls of its answer."""
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % (
            self.path
        )
        self.writer.write(head + b"Content-Length: %d\r\n\r\n" % (len(self.body) + 2))
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

    async def turn(self, said: str) -> None:
        """A turn: requests until an answer has no calls."""
        self.put(_encode({"type": "message", "role": "user", "content": said}))
        while calls := await self.ask():
            for call in calls:
                done = {"type": "function_call_output", "call_id": call.call_id}
                self.put(_encode({**done, "output": tick(call)}))


async def turns(job: Job, script: str, count: int) -> None:
    """A conversation of some turns."""
    address = urlsplit(job.base(script))
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    conversation = Conversation(reader, writer)
    conversation.path = f"{address.path}/responses".encode()
    for number in range(count):
        await conversation.turn(f"{QUESTION} ({number}).")
    writer.close()


async def cold_start(job: Job) -> None:
    await turns(job, "text", 1)


async def tool_loop(job: Job) -> None:
    await turns(job, f"tick-{job.sizes['rounds']}", 1)


async def deltas(job: Job) -> None:
    await turns(job, "deltas", 2 * job.sizes["answers"] + 1)


async def long_thread(job: Job) -> None:
    await turns(job, "text", job.sizes["turns"])


if __name__ == "__main__":
    drive(
        "msgspec",
        {
            "cold_start": cold_start,
            "tool_loop": tool_loop,
            "deltas": deltas,
            "turns": long_thread,
        },
    )
