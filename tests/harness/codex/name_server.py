"""Runs an app-server where every look for a name is heard.

Started in namespaces of its own (network and mounts), where nothing but 127.0.0.1
exists and its port 53 is ours. Prints what was looked for, as JSON.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

from treadle.harness.codex.app_server import AppServer
from treadle.harness.codex.protocol.client_requests import StartThread, StartTurn, TextInput
from treadle.harness.codex.protocol.notifications import TurnCompletedNotification
from treadle.harness.codex.protocol.server_requests import ClientReply, ServerRequest
from treadle.harness.codex.server_access import ProviderRoute
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer as Said
from treadle.testing.script import Script

from .real_servers import real_command

_SET_FLAGS = 0x8914
_UP_AND_RUNNING = 0x41


class Names(asyncio.DatagramProtocol):
    """A name server that knows no name and remembers who was asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.DatagramTransport)
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, place = [], 12
        while length := data[place]:
            labels.append(data[place + 1 : place + 1 + length].decode())
            place += length + 1
        self.asked.add(".".join(labels))
        self.transport.sendto(data[:2] + b"\x81\x83" + data[4:6] + bytes(6) + data[12:], addr)


async def main(directory: Path, *, plugins: bool) -> None:
    loop = asyncio.get_running_loop()
    transport, names = await loop.create_datagram_endpoint(Names, local_addr=("127.0.0.1", 53))
    async with FakeServer(Script(answers=(Said(text="hello"),))) as fake:
        status = await a_turn(
            directory, ProviderRoute(provider="fake", base_url=fake.base_url), plugins
        )
    transport.close()
    print(json.dumps({"turn": status, "names": sorted(names.asked)}))  # noqa: T201


async def a_turn(directory: Path, route: ProviderRoute, plugins: bool) -> str:
    launch = real_command(directory, route)
    if plugins:
        config = Path(launch.environment["CODEX_HOME"]) / "config.toml"
        config.write_text(config.read_text().replace("plugins = false", "plugins = true"))
    server = AppServer(launch)
    connection = await server.connection()
    start = StartThread(cwd=str(directory), model="any", config=route.config())
    opened, events = await connection.open_thread(start, nobody)
    hello = StartTurn(thread_id=opened.thread.id, input=(TextInput(text="hi"),))
    await connection.call(hello)
    try:
        async for event in events:
            if isinstance(event, TurnCompletedNotification):
                return event.turn.status
    finally:
        if plugins and server.pid is not None:
            # It would finish its search first.
            os.kill(server.pid, signal.SIGKILL)
        await server.close()
    raise AssertionError("the turn did not end")


async def nobody(ask: ServerRequest) -> ClientReply:
    raise AssertionError(f"nothing should be asked, but was: {ask.method}")


def hear_names(directory: Path) -> None:
    raise_loopback()
    (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    subprocess.run(("mount", "--bind", directory / "resolv.conf", "/etc/resolv.conf"), check=True)


def raise_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))


if __name__ == "__main__":
    hear_names(Path(sys.argv[1]))
    asyncio.run(main(Path(sys.argv[1]), plugins=sys.argv[2] == "plugins"))
