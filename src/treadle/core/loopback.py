"""A small HTTP server on the loopback interface that acts as a Responses endpoint.

Owns one listening socket and the requests it has recorded. Invariant: it binds
127.0.0.1 only, answers requests in the order they come, and never outlives its
`async with` block.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec
from msgspec import Struct, field

from .wire import json_bytes

__all__ = [
    "LoopbackListener",
    "LoopbackRequest",
    "LoopbackResponse",
    "LoopbackScript",
    "LoopbackServer",
    "stream_response",
    "text_response",
]

_LARGEST_BODY = 64 * 1024 * 1024
_LARGEST_HEAD = 1 << 18


class LoopbackRequest(Struct, frozen=True):
    """One request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def payload(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)


class LoopbackResponse(Struct, frozen=True):
    """One response. The connection closes after it."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunks: tuple[bytes, ...] = ()


LoopbackScript: TypeAlias = Callable[
    [LoopbackRequest], LoopbackResponse | Awaitable[LoopbackResponse]
]
"""Returns the response to each POST to ``/v1/responses``."""


def stream_response(
    events: Iterable[Mapping[str, object]], headers: dict[str, str] | None = None
) -> LoopbackResponse:
    """Return an event stream of these events, each with its ``type``."""
    chunks = (b"event: %b\ndata: %b\n\n" % (_type(e), json_bytes(e)) for e in events)
    given = {"content-type": "text/event-stream", **(headers or {})}
    return LoopbackResponse(headers=given, chunks=tuple(chunks))


def text_response(
    text: str, *, response_id: str = "resp_1", total_tokens: int = 0
) -> LoopbackResponse:
    """Return a stream in which the model says `text` and the provider reports `total_tokens`."""
    message = {
        "type": "message",
        "id": f"msg_{response_id}",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    usage = {"input_tokens": total_tokens, "output_tokens": 0, "total_tokens": total_tokens}
    return stream_response(
        (
            {"type": "response.created", "response": {"id": response_id}},
            {"type": "response.output_item.done", "item": message},
            {"type": "response.completed", "response": {"id": response_id, "usage": usage}},
        )
    )


class LoopbackListener(ABC):
    """Listens on ``http://127.0.0.1:<port>/v1`` while it is entered.

    A subclass handles one connection in `talk`; the client may leave at any time.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[LoopbackRequest] = []
        self.connections = 0
        """How many connections clients have made."""
        self._port = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what comes over one connection."""

    async def __aenter__(self) -> Self:
        # A stream of asyncio has TCP_NODELAY set.
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self._port, limit=_LARGEST_HEAD, backlog=512
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None, "enter the server with `async with` first"
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def base_url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.port}/v1"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The client left, or does not use HTTP.
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


class LoopbackServer(LoopbackListener):
    """Answers requests as `script` decides, and records them.

    Anything but ``POST /v1/responses`` is recorded and answered with 404.
    """

    def __init__(self, script: LoopbackScript) -> None:
        super().__init__()
        self._script = script

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and give its answer."""
        request = await _read_request(reader)
        self.requests.append(request)
        answer = LoopbackResponse(status=404)
        if (request.method, request.path) == ("POST", "/v1/responses"):
            scripted = self._script(request)
            answer = scripted if isinstance(scripted, LoopbackResponse) else await scripted
        await _write(writer, answer)


async def _read_request(reader: asyncio.StreamReader) -> LoopbackRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, _, rest = first.partition(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    size = min(int(headers.get("content-length", "0") or 0), _LARGEST_BODY)
    body = await reader.readexactly(size)
    return LoopbackRequest(method, rest.rpartition(" ")[0].partition("?")[0], headers, body)


async def _write(writer: asyncio.StreamWriter, answer: LoopbackResponse) -> None:
    headers = {**answer.headers, "connection": "close"}
    if not answer.chunks:
        headers["content-length"] = "0"
    lines = (f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} Scripted\r\n{''.join(lines)}\r\n".encode("latin-1"))
    for chunk in answer.chunks:
        writer.write(chunk)
        await writer.drain()


def _type(event: Mapping[str, object]) -> bytes:
    return str(event["type"]).encode()
