"""One answer as it comes in: fed by a connection, read by a response.

Owns the parser and the few pieces that nobody has taken yet. Invariant: what it
holds is bounded by what was received since the reader last looked, never by what
a header announces; bytes that carry no body are counted and cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from .errors import ConnectionClosed, HttpProtocolError, TransportError
from .headers import Headers

__all__ = ["LARGEST_HEAD", "Exchange"]

LARGEST_HEAD = 64 * 1024
"""Status line, headers, interim answers; later on trailers and chunk extensions."""


class Exchange:
    """The state of one answer, and an iterator over the pieces of its body."""

    def __init__(self, origin: str, *, on_wait: Callable[[], None], tunnel: bool) -> None:
        import httptools

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
        self._barren = 0
        self._waiter: asyncio.Future[None] | None = None
        self._on_wait = on_wait
        self._tunnel = tunnel
        # The parser calls `append` itself: a small chunk costs no Python frame.
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        self._refusal = (httptools.HttpParserError, httptools.HttpParserUpgrade)

    @property
    def has_head_or_error(self) -> bool:
        """Whether the head is there, or will never be."""
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
        """Take what the socket gave; whether a reader gets anything from it."""
        self.received = True
        self.buffered += len(data)
        before = (self.answered, len(self._pieces), self.complete)
        try:
            self._parse(data)
        except self._refusal as error:
            if not self.complete:
                self.fail(self._malformed(str(error)), error)
            self.keep_alive = False
        moved = (self.answered, len(self._pieces), self.complete) != before
        if moved or self.error is not None:
            self._wake()
        return moved

    def end(self, cause: Exception | None = None) -> None:
        """The other side will send nothing more."""
        if self.complete or self.error is not None:
            return
        if self.answered and self._lasts_until_close and cause is None:
            self.complete = True
        else:
            self.error = ConnectionClosed(self.origin, answered=self.received)
            self.error.__cause__ = cause
        self._wake()

    def fail(self, error: TransportError, cause: Exception | None = None) -> None:
        """Give up for this reason, unless it is already over."""
        if not self.complete and self.error is None:
            self.error = error
            error.__cause__ = cause
        self._wake()

    async def head(self) -> None:
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
        """Parser: a status line starts."""
        if self.complete:
            raise ValueError("an answer nobody asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser: one header, or a trailer, which is dropped."""
        if not self.answered:
            self._fields.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Parser: the head is complete; 1xx answers are only heralds."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self._fields.clear()
            return
        self.headers = Headers(self._fields)
        self.keep_alive = self._parser.should_keep_alive()
        self.answered = True

    def on_message_complete(self) -> None:
        """Parser: the body is complete."""
        # What follows the head of an open tunnel is not ours to frame.
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
        """What is left of `data`; not one byte more than a head may have is parsed as one."""
        allowance = LARGEST_HEAD - self._barren
        self._parser.feed_data(data[:allowance])
        self._barren = 0 if self.has_head_or_error else self._barren + len(data)
        if self._barren >= LARGEST_HEAD:
            self.fail(self._malformed(f"its headers are larger than {LARGEST_HEAD} bytes"))
        return data[allowance:]

    def _parse_body(self, data: bytes) -> None:
        before = len(self._pieces)
        self._parser.feed_data(data)
        self._barren = 0 if len(self._pieces) > before else self._barren + len(data)
        if self._barren > LARGEST_HEAD:
            self.fail(self._malformed("trailers or chunk headers without end"))

    def _malformed(self, reason: str) -> HttpProtocolError:
        return HttpProtocolError(
            self.origin,
            f"this is not HTTP/1.1 as we accept it ({reason}); check that the URL and port "
            "are those of the API",
            # A head is wrong for good; a body may have been garbled on its way.
            retryable=self.answered,
        )

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("two readers of one answer; read it in one place")
        self._on_wait()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
