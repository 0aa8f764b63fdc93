"""Every request that a provider received stands in a log, whenever the process was killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path

from treadle.store import SqliteStore

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "12"))

CHILD = """
import asyncio, sys
from pathlib import Path
from treadle import Rights, Routing, Thread
from treadle.models.providers import ProviderConfig
from treadle.tools.decorator import tool

place, port, thread = Path(sys.argv[1]), sys.argv[2], sys.argv[3] or None


@tool
async def look() -> str:
    "Looks."
    return "x" * 2_000


async def main():
    provider = ProviderConfig(base_url=f"http://127.0.0.1:{port}", api="responses", key="k")
    async with Thread.open(
        thread,
        model="counting:m",
        home=place,
        cwd=place,
        tools=(look,),
        rights=Rights(sandbox="danger-full-access", approval="never"),
        routing=Routing(providers={"counting": provider}),
    ) as opened:
        print(opened.id, flush=True)
        while True:
            async for _ in opened.run("go"):
                pass


asyncio.run(main())
"""


class Counting:
    """A provider that counts requests by their first bytes, and always wants one more look."""

    def __init__(self) -> None:
        self.received = 0
        self.enough = asyncio.Event()
        self.limit = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while first := await reader.read(1):
                self.received += 1
                if self.received >= self.limit:
                    self.enough.set()
                head = (first + await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.split(b"content-length:")[1].split(b"\r\n")[0]
                body = await reader.readexactly(int(length))
                compacts = b"<summary" in body or b"summar" in body[-2_000:]
                writer.write(self._answer(len(body) // 4, compacts))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the one who asked was killed
        finally:
            writer.close()

    def _answer(self, tokens: int, compacts: bool) -> bytes:
        name = f"{self.received}"
        item: dict[str, object] = {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": f"call_{name}",
            "name": "look",
            "arguments": "{}",
        }
        if compacts:
            text = [{"type": "output_text", "text": "It looked."}]
            item = {"type": "message", "id": f"m_{name}", "role": "assistant", "content": text}
        response = {"id": f"r_{name}", "usage": {"total_tokens": tokens}}
        events = [
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": response},
        ]
        body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        return head % len(body) + body


async def killed(place: Path, port: int, thread: str, enough: asyncio.Event) -> str:
    """Run a turn that is killed as soon as the provider has heard enough; return its thread."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(place), str(port), thread, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    name = (await child.stdout.readline()).decode().strip()
    heard, ended = asyncio.create_task(enough.wait()), asyncio.create_task(child.wait())
    await asyncio.wait((heard, ended), return_when=asyncio.FIRST_COMPLETED)
    assert heard.done(), "the turn ended before the provider had heard enough"
    child.send_signal(signal.SIGKILL)
    await ended
    return name


async def test_every_request_that_a_provider_received_stands_in_the_log(tmp_path: Path):
    (tmp_path / "models.toml").write_text("[models.m]\ncontext_window = 24_000\n")
    provider, chance, thread = Counting(), random.Random(14), ""
    async with await asyncio.start_server(provider.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for _ in range(ROUNDS):
            provider.limit = provider.received + chance.randrange(1, 12)
            provider.enough.clear()
            thread = await killed(tmp_path, port, thread, provider.enough)
            async with await SqliteStore.open(tmp_path) as store:
                entries = await store.read(thread)
            noted = [entry.kind for entry in entries if entry.kind in {"request", "completion"}]
            assert len(noted) >= provider.received
    assert "completion" in noted
