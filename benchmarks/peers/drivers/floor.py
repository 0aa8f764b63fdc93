"""The floor: bare aiohttp and msgspec. No log, no validation, no sandbox, no hooks."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
from bare import TOOL, Item, read_event, read_item, tick
from common import INSTRUCTIONS, MODEL, QUESTION, Job, drive

_encode = msgspec.json.Encoder().encode


class Conversation:
    """A list of items that grows, sent whole each time."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session, self.url = session, f"{base}/responses"
        self.items: list[Any] = []

    async def ask(self) -> tuple[str, list[Item]]:
        """One request; the text and the calls of its answer."""
        text: list[str] = []
        calls: list[Item] = []
        body = _encode(
            {
                "model": MODEL,
                "instructions": INSTRUCTIONS,
                "tools": [TOOL],
                "stream": True,
                "store": False,
                "input": self.items,
            }
        )
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        async with self.session.post(self.url, data=body, headers=headers) as response:
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

    async def turn(self, said: str, command: bool = False) -> str:
        """A turn: requests until an answer has no calls."""
        self.items.append({"type": "message", "role": "user", "content": said})
        while True:
            text, calls = await self.ask()
            if not calls:
                return text
            for call in calls:
                output = await run_command(call) if command else tick(call)
                done = {"type": "function_call_output", "call_id": call.call_id, "output": output}
                self.items.append(done)


async def lines(content: aiohttp.StreamReader) -> Any:
    """The data of server-sent events."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.startswith(b"data: "):
                yield line[6:]


async def run_command(call: Item) -> str:
    """A real command."""
    command = msgspec.json.decode(call.arguments)["command"]
    process = await asyncio.create_subprocess_shell(
        command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return f"exit code {process.returncode}\n{output.decode()}"


async def turns(job: Job, script: str, count: int, command: bool = False) -> None:
    """A conversation of some turns."""
    async with aiohttp.ClientSession() as session:
        conversation = Conversation(session, job.base(script))
        for number in range(count):
            await conversation.turn(f"{QUESTION} ({number}).", command)


async def cold_start(job: Job) -> None:
    await turns(job, "text", 1)


async def tool_loop(job: Job) -> None:
    await turns(job, f"tick-{job.sizes['rounds']}", 1)


async def command_loop(job: Job) -> None:
    await turns(job, f"run_command-{job.sizes['rounds']}", 1, command=True)


async def deltas(job: Job) -> None:
    await turns(job, "deltas", 2 * job.sizes["answers"] + 1)


async def long_thread(job: Job) -> None:
    await turns(job, "text", job.sizes["turns"])


async def threads(job: Job) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(one_of_many(session, job) for _ in range(job.sizes["threads"])))


async def one_of_many(session: aiohttp.ClientSession, job: Job) -> None:
    conversation = Conversation(session, job.base("text"))
    for number in range(job.sizes["turns_each"]):
        await conversation.turn(f"{QUESTION} ({number}).")


if __name__ == "__main__":
    drive(
        "aiohttp",
        {
            "cold_start": cold_start,
            "tool_loop": tool_loop,
            "command_loop": command_loop,
            "deltas": deltas,
            "turns": long_thread,
            "threads": threads,
        },
    )
