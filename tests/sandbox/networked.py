"""Runs commands whose network is a list of hosts, as whoever it is told to be.

Everything is imported before it becomes somebody else, who may not be able to read it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.sandbox.runner import become
from treadle.sandbox import (
    boundary,
    bubblewrap,
    environment_variables,
    network_proxy,
    place,
    probe,
)
from treadle.sandbox.policy import SandboxPolicy
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.local import LocalExecutor, local_executor, process

LOADED = (boundary, bubblewrap, environment_variables, network_proxy, place, probe)
LOADED_TOOLS = (local_executor, process, concurrent.futures.thread)

NAMES = {
    "docs.example.org": ["93.184.216.34"],
    "a.example.com": ["2606:2800:220:1::1", "93.184.216.34"],
    "inner.example.com": ["10.0.0.5"],
    "loop.example.com": ["127.0.0.1"],
    "link.example.com": ["93.184.216.34", "169.254.169.254"],
    "wrapped.example.com": ["64:ff9b::a9fe:a9fe"],
    "mapped.example.com": ["::ffff:127.0.0.1"],
    "evil.net": ["93.184.216.35"],
}


class Jobs(Struct):
    uid: int
    search: str
    python: str
    workspace: str
    home: str
    hosts: list[str]
    scripts: list[str]
    """Programs in Python; with a dollar before it, one of a shell."""


class Results(Struct):
    outputs: list[str]
    refusals: list[list[str]]
    connected: list[tuple[str, int]]
    heard: list[str]
    """The heads of the requests that arrived."""


class TableNetwork:
    """Names have the addresses of a table, and every address leads to one server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connected: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        if host not in NAMES or not 0 < port < 1 << 16:
            raise OSError(f"no address for {host}")
        return NAMES[host]

    async def connect(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.connected.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self.port)


async def perform(jobs: Jobs) -> Results:
    heard: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    network = TableNetwork(server.sockets[0].getsockname()[1])
    environ = {"PATH": jobs.search, "HOME": jobs.workspace, "https_proxy": "http://the.users:1"}
    executor = LocalExecutor(home=Path(jobs.home), environ=environ, network=network)
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, hosts=tuple(jobs.hosts))
    bounds = Bounds(policy=policy, workspace=Path(jobs.workspace))
    outputs, refusals = [], []
    for script in jobs.scripts:
        argv = ("sh", "-c", script[1:]) if script[0] == "$" else (jobs.python, "-c", script)
        spec = ProcessSpec(argv=argv, cwd=Path(jobs.workspace), bounds=bounds)
        started = await executor.start(spec)
        outputs.append(b"".join([data async for data in started.output()]).decode())
        await started.wait()
        refusals.append([*await started.take_refusals()])
    await executor.close()
    server.close()
    return Results(outputs, refusals, network.connected, heard)


def main(arguments: Sequence[str]) -> None:
    jobs = msgspec.json.decode(arguments[0], type=Jobs)
    become(jobs.uid)
    # The one who runs Treadle can read its Python.
    sys.executable = jobs.python
    results = asyncio.run(perform(jobs))
    sys.stdout.buffer.write(msgspec.json.encode(results))


if __name__ == "__main__":
    main(sys.argv[1:])
