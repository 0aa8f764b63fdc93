from __future__ import annotations

import asyncio
from contextlib import suppress
from ipaddress import ip_address

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


class SocksProxy:
    """A SOCKS5 proxy that knows its own names and keeps what it was asked for."""

    def __init__(self, names: dict[str, int], *, login: tuple[str, str] | None = None) -> None:
        self.names, self.login = names, login
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, peer: Peer) -> None:
        if not await self._admits(peer):
            return
        _, _, _, kind = await peer.reader.readexactly(4)
        if kind == 3:
            size = (await peer.reader.readexactly(1))[0]
            host = (await peer.reader.readexactly(size)).decode()
        else:
            host = str(ip_address(await peer.reader.readexactly(4 if kind == 1 else 16)))
        port = int.from_bytes(await peer.reader.readexactly(2), "big")
        self.asked.append((host, port))
        if host not in self.names:
            await peer.send(bytes((5, 4, 0, 1)) + bytes(6))
            return
        upstream = await asyncio.open_connection("127.0.0.1", self.names[host])
        # The address that it connected from may be a name, too.
        await peer.send(bytes((5, 0, 0, 3, 4)) + b"here" + bytes(2))
        await _join(peer, *upstream)

    async def _admits(self, peer: Peer) -> bool:
        _, count = await peer.reader.readexactly(2)
        methods = await peer.reader.readexactly(count)
        if self.login is None:
            await peer.send(bytes((5, 0)))
            return True
        if 2 not in methods:
            await peer.send(bytes((5, 255)))
            return False
        await peer.send(bytes((5, 2)))
        given = []
        await peer.reader.readexactly(1)
        for _ in range(2):
            size = (await peer.reader.readexactly(1))[0]
            given.append((await peer.reader.readexactly(size)).decode())
        right = tuple(given) == self.login
        await peer.send(bytes((1, 0 if right else 1)))
        return right


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
