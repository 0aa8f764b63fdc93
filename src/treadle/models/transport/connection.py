"""One TCP or TLS connection to one origin or proxy.

Owns the socket and carries one exchange at a time. Invariant: it is given back
only when request and answer are both complete and nothing else was received; in
every other case it is closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from .errors import Phase, TimedOut, TransportClosed
from .exchange import Exchange
from .patience import ExchangeTimers
from .request import HttpRequest

__all__ = ["ConnectionOwner", "HttpConnection"]

_SLICE = 256 * 1024
_ENOUGH = 64 * 1024
"""Bytes that may lie unread before we stop the server."""


class ConnectionOwner(Protocol):
    """Who gets a connection back."""

    def keep(self, connection: HttpConnection) -> None:
        """It is free for the next request."""

    def forget(self, connection: HttpConnection) -> None:
        """It is gone."""


class HttpConnection(asyncio.Protocol):
    """Sends requests, one after the other, and feeds each answer to its exchange."""

    def __init__(self, origin: str, keeper: ConnectionOwner) -> None:
        self._origin = origin
        self._keeper = keeper
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._patience: ExchangeTimers | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False
        self._sent = False
        self._stalled = False
        self._over = False
        self.remember: Callable[[ssl.SSLObject], None] | None = None

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return not self._over and self._exchange is None

    @property
    def transport(self) -> asyncio.Transport:
        """The socket's transport."""
        assert self._transport is not None, "not connected yet"
        return self._transport

    async def ask(self, request: HttpRequest, *, tunnel: bool = False) -> Exchange:
        """Send one request; returns when the head of its answer is there."""
        exchange = self._begin(request, tunnel=tunnel)
        try:
            if not self._over:
                await self._send(request, exchange)
            await exchange.head()
        except BaseException:
            self.abort()
            raise
        return exchange

    def secure(self, transport: asyncio.Transport) -> None:
        """Go on over the TLS that was started inside this connection."""
        self._transport = transport
        self._end_exchange()

    def abandon(self, exchange: Exchange) -> None:
        """Nobody wants the rest of that answer."""
        if self._exchange is exchange:
            self.abort()

    def abort(self) -> None:
        """Close at once, dropping what is still to be sent."""
        self._over = True
        if self._exchange is not None:
            self._exchange.fail(TransportClosed(self._origin))
        self._end_exchange()
        self._wake_writer()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        exchange = self._exchange
        if exchange is None or self._patience is None:
            # Nobody asked for these; what comes next could not be trusted.
            self.abort()
            return
        # Whoever drips in headers is as silent as one who says nothing.
        if exchange.feed(data):
            self._patience.touch()
        if exchange.has_head_or_error:
            self._wake_writer()
        if exchange.complete:
            self._give_back(exchange)
        elif exchange.error is not None:
            self.abort()
        elif exchange.buffered > _ENOUGH:
            self._stalled = True
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """asyncio: the other side is done; so are we."""
        self._over = True
        if self._exchange is not None:
            self._exchange.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the socket is closed."""
        self._over = True
        if self._exchange is not None:
            self._exchange.end(exc)
        self._end_exchange()
        self._wake_writer()
        self._keeper.forget(self)

    def pause_writing(self) -> None:
        """asyncio: the send buffer is full."""
        self._full = True

    def resume_writing(self) -> None:
        """asyncio: there is room again."""
        self._full = False
        self._wake_writer()

    def _begin(self, request: HttpRequest, *, tunnel: bool) -> Exchange:
        assert self._exchange is None, "one exchange at a time"
        exchange = Exchange(self._origin, on_wait=self._on_wait, tunnel=tunnel)
        if self._over:
            exchange.end()
            return exchange

        def expire(phase: Phase, seconds: float) -> None:
            exchange.fail(TimedOut(self._origin, phase, seconds))
            self.abort()

        self._sent = False
        self._exchange = exchange
        self._patience = ExchangeTimers(
            request.timeouts,
            request.deadline,
            waiting=lambda: exchange.waiting or self._writer is not None,
            expire=expire,
        )
        return exchange

    async def _send(self, request: HttpRequest, exchange: Exchange) -> None:
        self.transport.write(request.head + request.body[:_SLICE])
        rest = memoryview(request.body)
        for start in range(_SLICE, len(rest), _SLICE):
            self._on_wait()
            while self._full and not exchange.refuses_request:
                await self._room()
            if exchange.refuses_request:
                return
            self.transport.write(rest[start : start + _SLICE])
        self._sent = True

    async def _room(self) -> None:
        self._writer = asyncio.get_running_loop().create_future()
        try:
            await self._writer
        finally:
            self._writer = None

    def _wake_writer(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def _on_wait(self) -> None:
        if self._patience is not None:
            self._patience.touch()
        if self._stalled and not self._over:
            self._stalled = False
            self.transport.resume_reading()

    def _give_back(self, exchange: Exchange) -> None:
        self._end_exchange()
        tls = self.transport.get_extra_info("ssl_object")
        if tls is not None and self.remember is not None:
            self.remember(tls)
        if exchange.keep_alive and self._sent and not self._over:
            self._keeper.keep(self)
        else:
            self.abort()

    def _end_exchange(self) -> None:
        if self._patience is not None:
            self._patience.stop()
        self._patience = None
        self._exchange = None
