"""The other side of a connection, in the hands of a test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from treadle.harness.codex.server_connection import AppServerConnection

__all__ = ["Peer", "connect_peer"]


@dataclass(eq=False)
class Peer:
    """Reads what the connection sends and says what the test wants."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def hear(self) -> dict[str, Any]:
        """The next message."""
        line = await self.reader.readline()
        message: dict[str, Any] = msgspec.json.decode(line)
        return message

    def say(self, *lines: object) -> None:
        """Send lines: bytes as they are, anything else as JSON."""
        for line in lines:
            data = line if isinstance(line, bytes) else msgspec.json.encode(line)
            self.writer.write(data + b"\n")

    async def answer(self, result: object = None) -> dict[str, Any]:
        """Hear a request and answer it."""
        request = await self.hear()
        self.say({"id": request["id"], "result": {} if result is None else result})
        return request


@asynccontextmanager
async def connect_peer(
    make: Callable[..., AppServerConnection] = AppServerConnection, **options: Any
) -> AsyncIterator[tuple[AppServerConnection, Peer]]:
    """A connection and who it is connected to."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    peer = Peer(*await asyncio.open_connection(sock=theirs, limit=1 << 26))
    connection = make(reader, writer, **options)
    try:
        yield connection, peer
    finally:
        await connection.close()
        peer.writer.close()
        await asyncio.gather(
            writer.wait_closed(), peer.writer.wait_closed(), return_exceptions=True
        )
