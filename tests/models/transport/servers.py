from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import trustme

from treadle.models.transport import AsyncTransport

Handler = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """One accepted connection, scripted byte by byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int

    async def request(self) -> tuple[str, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        sizes = [line[15:] for line in head.lower().split("\r\n") if line.startswith("content-len")]
        return head, await self.reader.readexactly(int(sizes[0]) if sizes else 0)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def answer(self, body: bytes, *headers: bytes, status: bytes = b"200 OK") -> None:
        lines = b"".join(header + b"\r\n" for header in headers)
        await self.send(
            b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, lines, len(body), body)
        )

    async def gone(self) -> None:
        with suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass


@dataclass
class Server:
    """A listening socket and what became of its connections."""

    port: int = 0
    host: str = "127.0.0.1"
    scheme: str = "http"
    accepted: int = 0
    failures: list[BaseException] = field(default_factory=list)

    def url(self, path: str = "/v1", host: str | None = None) -> str:
        return f"{self.scheme}://{host or self.host}:{self.port}{path}"


@asynccontextmanager
async def serving(
    handler: Handler, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    server = Server(host=f"[{host}]" if ":" in host else host, scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.accepted += 1
        try:
            await handler(Peer(reader, writer, server.accepted))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client went away, or the test is over.
        except AssertionError as error:
            server.failures.append(error)
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            tasks.discard(task)

    listener = await asyncio.start_server(accept, host, 0, ssl=tls, limit=1 << 20, backlog=512)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()
    assert server.failures == []


async def echo(peer: Peer) -> None:
    """Answers every request with its own body, for as long as the client stays."""
    while True:
        _, body = await peer.request()
        await peer.answer(body)


def tls_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(server)
    return server


async def post(transport: AsyncTransport, url: str, body: bytes = b"x") -> bytes:
    async with await transport.post(url, body, {}) as response:
        return await response.read(1 << 27)
