"""One HTTP response as it comes in: fed by a connection, read by a response.

Owns the parser and the few pieces that nobody has taken yet. Invariant: what it
holds is bounded by what was received since the reader last looked, never by what
a header announces; bytes that carry no body are counted and cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

import httptools

from .contract import Headers
from .errors import ConnectionClosed, HttpProtocolError, TransportError

__all__ = ["LARGEST_HEAD", "Exchange"]

LARGEST_HEAD = 64 * 1024
"""Status line, headers, interim answers; later on trailers and chunk extensions."""


class Exchange:
    """The state of one response, and an iterator over the pieces of its body."""

    def __init__(self, origin: str, *, on_wait: Callable[[], None], tunnel: bool) -> None:
        self.origin = origin
        self.status = 0
        self.headers = Headers()
        self.received = False
        self.answered = False
        self.complete = False
        self.keep_alive = False
        self.error: TransportError | None = None
        self.buffered = 0
        self._fields: list[tuple[str, str]] = []
        self._pieces: list[bytes] = []
        self._bytes_without_body = 0
        self._waiter: asyncio.Future[None] | None = None
        self._on_wait = on_wait
        self._tunnel = tunnel
        # The parser calls `append` itself: a small chunk costs no Python frame.
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)

    @property
    def has_head_or_error(self) -> bool:
        """Whether the head is there, or will never come."""
        return self.answered or self.error is not None

    @property
    def refuses_request(self) -> bool:
        """Whether the server wants no more of the request."""
        return self.error is not None or self.complete or (self.answered and self.status >= 300)

    @property
    def waiting(self) -> bool:
        """Whether a reader waits for more."""
        return self._waiter is not None

    def feed(self, data: bytes) -> bool:
        """Parse what the socket gave; return whether a reader gets anything from it."""
        self.received = True
        self.buffered += len(data)
        before = (self.answered, len(self._pieces), self.complete)
        try:
            self._parse(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                self.fail(self._protocol_error(str(error)), error)
            self.keep_alive = False
        moved = (self.answered, len(self._pieces), self.complete) != before
        if moved or self.error is not None:
            self._wake()
        return moved

    def end(self, cause: Exception | None = None) -> None:
        """Handle the end of what the other side sends."""
        if self.complete or self.error is not None:
            return
        if self.answered and self._lasts_until_close and cause is None:
            self.complete = True
        else:
            self.error = ConnectionClosed(self.origin, answered=self.received)
            self.error.__cause__ = cause
        self._wake()

    def fail(self, error: TransportError, cause: Exception | None = None) -> None:
        """End with this error, unless the exchange is already over."""
        if not self.complete and self.error is None:
            self.error = error
            error.__cause__ = cause
        self._wake()

    async def wait_for_head(self) -> None:
        """Wait until status and headers are there."""
        while not self.answered:
            if self.error is not None:
                raise self.error
            await self._wait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self.error is not None:
                raise self.error
            if self.complete:
                raise StopAsyncIteration
            await self._wait()
        pieces = self._pieces
        chunk = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.buffered = 0
        return chunk

    def on_message_begin(self) -> None:
        """Handle the start of a status line (called by the parser)."""
        if self.complete:
            raise ValueError("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header; drop a trailer (called by the parser)."""
        if not self.answered:
            self._fields.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Handle the end of the head; skip 1xx responses (called by the parser)."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self._fields.clear()
            return
        self.headers = Headers.from_fields(self._fields)
        self.keep_alive = self._parser.should_keep_alive()
        self.answered = True

    def on_message_complete(self) -> None:
        """Handle the end of the body (called by the parser)."""
        # What follows the head of an open tunnel is not HTTP of ours.
        self.complete = self.answered and not self._tunnel

    @property
    def _lasts_until_close(self) -> bool:
        return not ("content-length" in self.headers or "transfer-encoding" in self.headers)

    def _parse(self, data: bytes) -> None:
        if not self.answered:
            data = self._parse_head(data)
        if self.complete and data:
            self.keep_alive = False
        elif data and self.error is None:
            self._parse_body(data)

    def _parse_head(self, data: bytes) -> bytes:
        """Parse as much of `data` as a head may have; return the rest."""
        allowance = LARGEST_HEAD - self._bytes_without_body
        self._parser.feed_data(data[:allowance])
        self._bytes_without_body = (
            0 if self.has_head_or_error else self._bytes_without_body + len(data)
        )
        if self._bytes_without_body >= LARGEST_HEAD:
            self.fail(self._protocol_error(f"its headers are larger than {LARGEST_HEAD} bytes"))
        return data[allowance:]

    def _parse_body(self, data: bytes) -> None:
        before = len(self._pieces)
        self._parser.feed_data(data)
        self._bytes_without_body = (
            0 if len(self._pieces) > before else self._bytes_without_body + len(data)
        )
        if self._bytes_without_body > LARGEST_HEAD:
            self.fail(self._protocol_error("trailers or chunk headers without end"))

    def _protocol_error(self, reason: str) -> HttpProtocolError:
        return HttpProtocolError(
            self.origin,
            f"this is not HTTP/1.1 as we accept it ({reason}); check that the URL and port "
            "are those of the API",
            # A wrong head stays wrong; a body may have been damaged on its way.
            retryable=self.answered,
        )

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("two readers of one response; read it in one place")
        self._on_wait()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
