"""HTTP as a fake server needs it: many requests on a connection, answers in pieces.

Owns one connection at a time. Invariant: an answer that was begun is ended properly or
its connection is closed, so that no client ever reads the end of another answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ...core.loopback import LoopbackRequest

__all__ = ["HttpReply", "HungUp", "read_request"]

_LARGEST_BODY = 256 * 1024 * 1024
_LOOK_SECONDS = 0.01


class HungUp(ConnectionError):
    """The client went away."""


async def read_request(reader: asyncio.StreamReader) -> LoopbackRequest | None:
    """Read the next request on a connection; return None when the client is done."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, _, rest = first.partition(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    size = min(int(headers.get("content-length", "0") or 0), _LARGEST_BODY)
    body = await reader.readexactly(size)
    return LoopbackRequest(method, rest.rpartition(" ")[0].partition("?")[0], headers, body)


class HttpReply:
    """An answer on its way to a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.ended = False
        """Whether the connection can carry another answer."""

    async def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send an answer at once."""
        self._head(status, {**headers, "content-length": str(len(body))})
        self._writer.write(body)
        self.ended = True
        await self._drain()

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer that follows in pieces."""
        self._head(status, {**headers, "transfer-encoding": "chunked"})
        await self._drain()

    async def send(self, piece: bytes) -> None:
        """Send a piece."""
        if piece:
            self._writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await self._drain()

    async def end(self) -> None:
        """Send the end of an answer that went in pieces."""
        self._writer.write(b"0\r\n\r\n")
        self.ended = True
        await self._drain()

    async def wait(self, seconds: float | None) -> None:
        """Do nothing for a while, or until the client goes away. Raises `HungUp`."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while until is None or (left := until - loop.time()) > 0:
            self._check()
            await asyncio.sleep(_LOOK_SECONDS if until is None else min(_LOOK_SECONDS, left))

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._writer.write(f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode("latin-1"))

    async def _drain(self) -> None:
        self._check()
        await self._writer.drain()

    def _check(self) -> None:
        if self._reader.at_eof() or self._reader.exception() or self._writer.is_closing():
            raise HungUp("the client went away")
