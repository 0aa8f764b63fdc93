"""A process that may use little more memory than it has, and asks a server that lies.

`python -m tests.fuzz.starved API LIE` prints the name and the code of what it ends in.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import cast

from tests.models.requests import request
from tests.models.transport.servers import Peer, serving
from treadle.models.contract import ModelError
from treadle.models.profile import ModelProfile
from treadle.models.providers import Api, ProviderConfig, connect
from treadle.models.transport import AsyncTransport

__all__ = ["LIES", "SPARE"]

SPARE = 320 << 20
"""Bytes beyond those it begins with: a few times the largest event, and no more."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n"
STREAM, DOCUMENT = HEAD % b"text/event-stream", HEAD % b"application/json"
_PIECE = 1 << 18


def _endless(head: bytes, piece: bytes) -> Iterator[bytes]:
    yield head
    yield from repeat(piece * (_PIECE // len(piece)))


LIES = {
    "a length of a terabyte": lambda: iter([STREAM + b"content-length: 1000000000000\r\n\r\nx"]),
    "a document of a terabyte": lambda: iter(
        [DOCUMENT + b"content-length: 1000000000000\r\n\r\nx"]
    ),
    "a chunk of an exabyte": lambda: iter(
        [STREAM + b"transfer-encoding: chunked\r\n\r\nfffffffffffffff\r\nx"]
    ),
    "headers without end": lambda: _endless(STREAM, b"x: y\r\n"),
    "a line without end": lambda: _endless(STREAM + b"\r\ndata: ", b"x"),
    "an event without end": lambda: _endless(STREAM + b"\r\n", b"data: x\n"),
    "a document without end": lambda: _endless(DOCUMENT + b"\r\n", b" "),
    "a stream without end": lambda: _endless(STREAM + b"\r\n", b"data: %b\n\n" % (b"x" * 8000)),
    "nesting without end": lambda: iter(
        [STREAM + b"\r\ndata: " + b'{"item":' * 10**6 + b"}" * 10**6 + b"\n\n"]
    ),
    "an error without end": lambda: _endless(
        b"HTTP/1.1 400 Bad\r\ncontent-length: 1000000000000\r\n\r\n", b"x"
    ),
}


def _starve() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


async def _ask(api: Api, lie: str) -> str:
    async def handler(peer: Peer) -> None:
        await peer.request()
        for piece in LIES[lie]():
            await peer.send(piece)

    async with serving(handler) as server:
        config = ProviderConfig(
            api=api, base_url=server.url(), key="key", idle_timeout=60, retries=0
        )
        model = connect(ModelProfile(slug="m", provider="p"), config, {}, AsyncTransport())
        asked = request(model)
        _starve()
        try:
            async for _ in model.stream(asked):
                pass
        except ModelError as error:
            return f"{type(error).__name__} {error.code}"
        finally:
            await model.close()
    return "no error"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(_ask(cast("Api", sys.argv[1]), sys.argv[2])))
