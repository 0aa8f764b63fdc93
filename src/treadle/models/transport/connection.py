"""One TCP or TLS connection to one origin or proxy.

Owns the socket and its timers, and carries one exchange at a time. Invariants: it is given
back only when request and response are both complete and nothing else was received; in every
other case it is closed. There is one timer for each limit, however many bytes pass.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from .contract import Timeouts
from .errors import Phase, TimedOut, TransportClosed
from .exchange import Exchange
from .http_request import HttpRequest

__all__ = ["ConnectionOwner", "ExchangeTimers", "HttpConnection"]

_SLICE = 256 * 1024
_ENOUGH = 64 * 1024
"""Bytes that may be unread before we stop the server."""


class ExchangeTimers:
    """Calls `expire` once when a limit is passed.

    Silence counts only while `waiting()`: a slow consumer is not the server's fault. Activity
    only moves a number, and the timer looks at it when it fires.
    """

    __slots__ = ("_expire", "_idle", "_idle_timer", "_last", "_loop", "_total_timer", "_waiting")

    def __init__(
        self,
        timeouts: Timeouts,
        deadline: float | None,
        *,
        waiting: Callable[[], bool],
        expire: Callable[[Phase, float], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting, self._expire = waiting, expire
        self._last = self._loop.time()
        self._idle = timeouts.idle
        self._idle_timer: asyncio.TimerHandle | None = None
        self._total_timer: asyncio.TimerHandle | None = None
        if timeouts.idle is not None:
            self._idle_timer = self._loop.call_at(self._last + timeouts.idle, self._check_idle)
        if deadline is not None:
            self._total_timer = self._loop.call_at(deadline, expire, "total", timeouts.total or 0.0)

    def touch(self) -> None:
        """Note that something happened just now."""
        self._last = self._loop.time()

    def stop(self) -> None:
        """Cancel the timers: the exchange is over."""
        for timer in (self._idle_timer, self._total_timer):
            if timer is not None:
                timer.cancel()

    def _check_idle(self) -> None:
        assert self._idle is not None
        if not self._waiting():
            self.touch()
        due = self._last + self._idle
        if due <= self._loop.time():
            self._expire("idle", self._idle)
        else:
            self._idle_timer = self._loop.call_at(due, self._check_idle)


class ConnectionOwner(Protocol):
    """Gets a connection back."""

    def keep(self, connection: HttpConnection) -> None:
        """Keep the connection for the next request."""

    def forget(self, connection: HttpConnection) -> None:
        """Forget the connection: it is closed."""


class HttpConnection(asyncio.Protocol):
    """Sends requests, one after the other, and feeds each response to its exchange."""

    def __init__(self, origin: str, owner: ConnectionOwner) -> None:
        self._origin = origin
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._timers: ExchangeTimers | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False
        self._sent = False
        self._paused = False
        self._closed = False
        self.remember: Callable[[ssl.SSLObject], None] | None = None

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return not self._closed and self._exchange is None

    @property
    def transport(self) -> asyncio.Transport:
        """The socket's transport."""
        assert self._transport is not None, "not connected yet"
        return self._transport

    async def send(self, request: HttpRequest, *, tunnel: bool = False) -> Exchange:
        """Send one request; return when the head of its response is there."""
        exchange = self._begin(request, tunnel=tunnel)
        try:
            if not self._closed:
                await self._write(request, exchange)
            await exchange.wait_for_head()
        except BaseException:
            self.abort()
            raise
        return exchange

    def secure(self, transport: asyncio.Transport) -> None:
        """Continue over the TLS that was started inside this connection."""
        self._transport = transport
        self._end_exchange()

    def abandon(self, exchange: Exchange) -> None:
        """Close the connection if that exchange is still open: its rest is not wanted."""
        if self._exchange is exchange:
            self.abort()

    def abort(self) -> None:
        """Close at once; drop what is still to be sent."""
        self._closed = True
        if self._exchange is not None:
            self._exchange.fail(TransportClosed(self._origin))
        self._end_exchange()
        self._wake_writer()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the connection (called by asyncio)."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes (called by asyncio)."""
        exchange = self._exchange
        if exchange is None or self._timers is None:
            # No request is open; what comes next could not be trusted.
            self.abort()
            return
        # A server that sends headers byte by byte counts as silent.
        if exchange.feed(data):
            self._timers.touch()
        if exchange.has_head_or_error:
            self._wake_writer()
        if exchange.complete:
            self._give_back(exchange)
        elif exchange.error is not None:
            self.abort()
        elif exchange.buffered > _ENOUGH:
            self._paused = True
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """Handle the end of what the other side sends (called by asyncio)."""
        self._closed = True
        if self._exchange is not None:
            self._exchange.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the closed socket (called by asyncio)."""
        self._closed = True
        if self._exchange is not None:
            self._exchange.end(exc)
        self._end_exchange()
        self._wake_writer()
        self._owner.forget(self)

    def pause_writing(self) -> None:
        """Note that the send buffer is full (called by asyncio)."""
        self._full = True

    def resume_writing(self) -> None:
        """Note that the send buffer has room again (called by asyncio)."""
        self._full = False
        self._wake_writer()

    def _begin(self, request: HttpRequest, *, tunnel: bool) -> Exchange:
        assert self._exchange is None, "one exchange at a time"
        exchange = Exchange(self._origin, on_wait=self._on_wait, tunnel=tunnel)
        if self._closed:
            exchange.end()
            return exchange

        def expire(phase: Phase, seconds: float) -> None:
            exchange.fail(TimedOut(self._origin, phase, seconds))
            self.abort()

        self._sent = False
        self._exchange = exchange
        self._timers = ExchangeTimers(
            request.timeouts,
            request.deadline,
            waiting=lambda: exchange.waiting or self._writer is not None,
            expire=expire,
        )
        return exchange

    async def _write(self, request: HttpRequest, exchange: Exchange) -> None:
        self.transport.write(request.head + request.body[:_SLICE])
        rest = memoryview(request.body)
        for start in range(_SLICE, len(rest), _SLICE):
            self._on_wait()
            while self._full and not exchange.refuses_request:
                await self._wait_for_room()
            if exchange.refuses_request:
                return
            self.transport.write(rest[start : start + _SLICE])
        self._sent = True

    async def _wait_for_room(self) -> None:
        self._writer = asyncio.get_running_loop().create_future()
        try:
            await self._writer
        finally:
            self._writer = None

    def _wake_writer(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def _on_wait(self) -> None:
        if self._timers is not None:
            self._timers.touch()
        if self._paused and not self._closed:
            self._paused = False
            self.transport.resume_reading()

    def _give_back(self, exchange: Exchange) -> None:
        self._end_exchange()
        tls = self.transport.get_extra_info("ssl_object")
        if tls is not None and self.remember is not None:
            self.remember(tls)
        if exchange.keep_alive and self._sent and not self._closed:
            self._owner.keep(self)
        else:
            self.abort()

    def _end_exchange(self) -> None:
        if self._timers is not None:
            self._timers.stop()
        self._timers = None
        self._exchange = None
