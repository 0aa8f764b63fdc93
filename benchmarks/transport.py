"""Our HTTP transport beside aiohttp and httpx2: cold start, and an answer of 5,000 deltas.

A server in a process of its own answers at once. Cold start is a fresh process, from its
first line to the end of its first answer, imports included. The 5,000 deltas come as one
chunk each and are read through the same event parser by every client. Rounds are
interleaved; medians and their ratio to ours are printed.

    python -m benchmarks.transport [--rounds 15] [--packages DIR] [--json]

The other clients are installed into DIR, or into a directory that is removed afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

RIVALS = ("aiohttp", "httpx2")
DELTAS = 5_000
REPEATS = 10
"""Answers read by one process; the first one warms it up and is not counted."""

Samples: TypeAlias = dict[str, dict[str, list[float]]]

# Each defines `session()`, which gives a way to make requests, and `read(session, url)`,
# which gives the pieces of an answer. Nothing but that client is imported.
CLIENTS = {
    "treadle": """
from treadle.models.transport import AsyncTransport as session
async def read(session, url):
    async with await session.post(url, b"{}", {"content-type": "application/json"}) as response:
        async for chunk in response.chunks():
            yield chunk
""",
    "aiohttp": """
from aiohttp import ClientSession as session
async def read(session, url):
    headers = {"content-type": "application/json"}
    async with session.post(url, data=b"{}", headers=headers) as response:
        async for chunk in response.content.iter_any():
            yield chunk
""",
    "httpx2": """
from httpx2 import AsyncClient as session
async def read(session, url):
    headers = {"content-type": "application/json"}
    async with session.stream("POST", url, content=b"{}", headers=headers) as response:
        async for chunk in response.aiter_raw():
            yield chunk
""",
}

COLD = """
import time
started = time.perf_counter()
import asyncio, json, sys
{client}
async def main():
    async with session() as opened:
        answer = b"".join([chunk async for chunk in read(opened, sys.argv[1] + "/small")])
    assert answer == b"ok", answer
asyncio.run(main())
print(json.dumps({{"cold start": (time.perf_counter() - started) * 1e3}}))
"""

STREAM = """
import asyncio, json, statistics, sys, time
from treadle.models.sse import EventParser
{client}
async def once(opened):
    started, busy = time.perf_counter(), time.process_time()
    parser, count = EventParser(), 0
    async for chunk in read(opened, sys.argv[1] + "/stream"):
        count += len(parser.feed(chunk))
    assert count == {deltas}, count
    return (time.perf_counter() - started) * 1e3, (time.process_time() - busy) * 1e3
async def main():
    async with session() as opened:
        took = [await once(opened) for _ in range({repeats})][1:]
    wall, cpu = (statistics.median(each) for each in zip(*took))
    print(json.dumps({{"{deltas} deltas": wall, "{deltas} deltas, CPU": cpu}}))
asyncio.run(main())
"""


def main() -> None:
    options = arguments()
    if options.serve:
        asyncio.run(serve())
        return
    with rivals(options.packages) as packages, server() as url:
        samples = measure(url, packages, options.rounds)
    results = {
        part: {client: statistics.median(times) for client, times in clients.items()}
        for part, clients in samples.items()
    }
    print(json.dumps(results, indent=2) if options.json else table(results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


@contextmanager
def rivals(directory: Path | None) -> Iterator[Path]:
    """A directory with the other clients in it."""
    if directory is None:
        with tempfile.TemporaryDirectory() as fresh, rivals(Path(fresh)) as filled:
            yield filled
        return
    if not all((directory / name).is_dir() for name in RIVALS):
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", directory, *RIVALS], check=True)
    yield directory


@contextmanager
def server() -> Iterator[str]:
    """The address of a server that runs in another process."""
    command = [sys.executable, "-m", "benchmarks.transport", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def measure(url: str, packages: Path, rounds: int) -> Samples:
    samples: Samples = {}
    for _ in range(rounds):
        for script in (COLD, STREAM):
            for name in CLIENTS:
                for part, took in run(script, name, url, packages).items():
                    samples.setdefault(part, {}).setdefault(name, []).append(took)
    return samples


def run(script: str, name: str, url: str, packages: Path) -> dict[str, float]:
    code = script.format(client=CLIENTS[name], deltas=DELTAS, repeats=REPEATS)
    environment = {**os.environ, "NO_PROXY": "*"}
    if name != "treadle":
        environment["PYTHONPATH"] = str(packages)
    done = subprocess.run(
        [sys.executable, "-c", code, url], env=environment, capture_output=True, check=True
    )
    took: dict[str, float] = json.loads(done.stdout)
    return took


def table(results: dict[str, dict[str, float]]) -> str:
    lines = [f"| | {' | '.join(CLIENTS)} |", f"|---|{'---|' * len(CLIENTS)}"]
    for part, clients in results.items():
        ours = clients["treadle"]
        cells = (f"{took:.1f} ms ({took / ours:.2f}x)" for took in clients.values())
        lines.append(f"| {part} | {' | '.join(cells)} |")
    return "\n".join(lines)


class Instant(asyncio.Protocol):
    """Answers each request as soon as its head and its two bytes of body are there."""

    def __init__(self, answers: dict[bytes, bytes]) -> None:
        self.answers = answers
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.received.endswith(b"\r\n\r\n{}"):
            self.transport.write(self.answers[self.received.split(b" ", 2)[1]])
            self.received = b""


def delta(number: int) -> bytes:
    payload = {
        "type": "response.output_text.delta",
        "sequence_number": number,
        "item_id": "msg_0123456789abcdef",
        "output_index": 0,
        "content_index": 0,
        "delta": f" word{number}",
    }
    event = f"event: response.output_text.delta\ndata: {json.dumps(payload)}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


async def serve() -> None:
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answers = {
        b"/small": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"/stream": head + b"".join(map(delta, range(DELTAS))) + b"0\r\n\r\n",
    }
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Instant(answers), "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    main()
