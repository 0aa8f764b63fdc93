"""The recording proxy: it stands in front of a model and keeps what agents send.

Owns one listening socket and the bodies, in the order in which they came. Invariant: bytes go
through as they are, in both directions; only the address changes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

from msgspec import Struct

from treadle.core.loopback import LoopbackListener, LoopbackRequest
from treadle.testing.fake.http import read_request

__all__ = ["Recorded", "RecordingProxy"]

_ANSWERING = ("/responses", "/chat/completions", "/messages", "/compact")
_NOT_PASSED_ON = frozenset({"host", "connection", "content-length", "accept-encoding"})


class Recorded(Struct, frozen=True):
    """A request for an answer, and how many bytes came back."""

    path: str
    body: bytes
    answer: bytes


class RecordingProxy(LoopbackListener):
    """Passes requests on to `upstream`, such as ``https://api.openai.com``."""

    def __init__(
        self, upstream: str, *, before: Callable[[int], Awaitable[bool]] | None = None
    ) -> None:
        super().__init__(0)
        self._upstream = urlsplit(upstream)
        self._before = before
        """Told the number of each request for an answer; False drops the connection."""
        self.recorded: list[Recorded] = []
        self._number = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one request on, and its answer back."""
        request = await read_request(reader)
        if request is None:
            return
        wanted = request.method == "POST" and request.path.endswith(_ANSWERING)
        if wanted:
            self._number += 1
            if self._before is not None and not await self._before(self._number):
                self.recorded.append(Recorded(request.path, request.body, b""))
                return
        answer = await self._pass_on(request, writer)
        if wanted:
            self.recorded.append(Recorded(request.path, request.body, answer))

    async def _pass_on(self, request: LoopbackRequest, writer: asyncio.StreamWriter) -> bytes:
        there = self._upstream
        secure = ssl.create_default_context() if there.scheme == "https" else None
        port = there.port or (443 if secure else 80)
        answers, asked = await asyncio.open_connection(there.hostname, port, ssl=secure)
        kept = bytearray()
        try:
            asked.write(_head(request, there.netloc) + request.body)
            while piece := await answers.read(1 << 16):
                kept += piece
                writer.write(piece)
                await writer.drain()
        finally:
            asked.close()
            with suppress(OSError):
                await asked.wait_closed()
        return bytes(kept)


def _head(request: LoopbackRequest, host: str) -> bytes:
    headers = {k: v for k, v in request.headers.items() if k not in _NOT_PASSED_ON}
    headers |= {"host": host, "connection": "close", "content-length": str(len(request.body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{request.method} {request.path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
