from __future__ import annotations

import asyncio
from contextlib import suppress

from .servers import Peer


class TunnelProxy:
    """A forwarding HTTP proxy that knows its own names and keeps what it was told."""

    def __init__(self, names: dict[str, int], *, authorization: str = "") -> None:
        self.names, self.authorization = names, authorization
        self.heads: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        head = (await peer.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        method, target, _ = head.split("\r\n")[0].split(" ")
        if self.authorization and f"Proxy-Authorization: {self.authorization}\r\n" not in head:
            await peer.answer(b"", status=b"407 Who are you")
            return
        authority = target if method == "CONNECT" else target.split("/")[2]
        if authority not in self.names:
            await peer.answer(b"", status=b"502 Unknown host")
            return
        upstream = await asyncio.open_connection("127.0.0.1", self.names[authority])
        if method == "CONNECT":
            await peer.send(b"HTTP/1.0 200 Connection established\r\nContent-Length: 0\r\n\r\n")
        else:
            upstream[1].write(head.encode("latin-1"))
        await _join(peer, *upstream)


async def _join(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pumps = [
        asyncio.ensure_future(_pump(peer.reader, writer)),
        asyncio.ensure_future(_pump(reader, peer.writer)),
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
