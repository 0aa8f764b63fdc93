"""HTTP/1.1 over asyncio: the transport that Treadle uses by default.

Owns the connections, the proxies and the TLS context of one event loop. Invariants: a
request is sent twice only if the first went out on a kept connection that died without a
byte of a response; closing the transport closes every connection; when a response is left,
its connection is either back in the pool or closed.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from .address import HttpRoute, Proxies
from .connection import HttpConnection
from .contract import DEFAULT_TIMEOUTS, Headers, Timeouts
from .dial import dial
from .errors import (
    BodyTooLarge,
    ConnectionClosed,
    HttpProtocolError,
    Phase,
    ProxyRefused,
    Redirected,
    TimedOut,
    TransportClosed,
)
from .exchange import Exchange
from .http_request import HttpRequest, deadline_in, prepare
from .tls import TlsContext, TlsTrust

__all__ = ["AsyncTransport", "Pool", "StreamedResponse"]

_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class AsyncTransport:
    """A `Transport` with keep-alive connections; belongs to one event loop.

    At most `spare` idle connections are kept for each server, for `keep_seconds`. How many
    are in use at once is the caller's choice.
    """

    def __init__(
        self,
        *,
        proxies: Proxies | None = None,
        trust: TlsTrust | None = None,
        spare: int = 16,
        keep_seconds: float = 60.0,
    ) -> None:
        self._proxies = proxies or Proxies()
        self._trust = trust or TlsTrust()
        self._pool = Pool(spare, keep_seconds)
        self._tls: asyncio.Future[TlsContext] | None = None
        self._closed = False

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        extra_authorities: tuple[Path, ...] = (),
    ) -> Self:
        """Read proxies and authorities from the usual variables."""
        chosen = os.environ if environment is None else environment
        return cls(
            proxies=Proxies.from_environment(chosen),
            trust=TlsTrust.from_environment(chosen, *extra_authorities),
        )

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        public: bool = False,
    ) -> StreamedResponse:
        """POST `body`; return when the head of the response is there."""
        request = prepare("POST", url, headers, timeouts, self._proxies, body=body, public=public)
        return await self._send(request)

    async def get(
        self, url: str, headers: Mapping[str, str], *, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> StreamedResponse:
        """GET `url`; return when the head of the response is there."""
        request = prepare("GET", url, headers, timeouts, self._proxies, body=None)
        return await self._send(request)

    async def delete(
        self, url: str, headers: Mapping[str, str], *, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> StreamedResponse:
        """DELETE `url`; return when the head of the response is there."""
        request = prepare("DELETE", url, headers, timeouts, self._proxies, body=None)
        return await self._send(request)

    async def close(self) -> None:
        """Close every connection, busy ones too."""
        self._closed = True
        self._pool.close()
        # A socket is closed one step of the loop after its abort, that of a cancelled dial
        # two steps after.
        for _ in range(3):
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _send(self, request: HttpRequest) -> StreamedResponse:
        if self._closed:
            raise TransportClosed(str(request.route.origin))
        if (kept := self._pool.take(request.route)) is not None:
            try:
                return await _send_on(kept, request)
            except ConnectionClosed as error:
                if error.answered:
                    raise
        return await _send_on(await self._connect(request), request)

    async def _connect(self, request: HttpRequest) -> HttpConnection:
        route, timeouts = request.route, request.timeouts
        phase: Phase = "connect"
        when, seconds = deadline_in(timeouts.connect), timeouts.connect
        if request.deadline is not None and (when is None or request.deadline < when):
            phase, when, seconds = "total", request.deadline, timeouts.total
        try:
            async with asyncio.timeout_at(when):
                tls = await self._context() if route.uses_tls else None
                connection = await dial(route, tls, self._pool)
        except TimeoutError:
            raise TimedOut(str(route.origin), phase, seconds or 0.0) from None
        if self._closed:
            connection.abort()
            raise TransportClosed(str(route.origin))
        self._pool.add(connection, route)
        return connection

    async def _context(self) -> TlsContext:
        """Return the TLS context, made once and off the loop: it reads many certificates."""
        if self._tls is None:
            work = asyncio.to_thread(self._trust.make_context)
            self._tls = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(self._tls)
        except Exception:
            self._tls = None
            raise


async def _send_on(connection: HttpConnection, request: HttpRequest) -> StreamedResponse:
    exchange = await connection.send(request)
    response = StreamedResponse(connection, exchange)
    proxy = request.route.proxy
    if response.status in _REDIRECTS:
        await response.close()
        raise Redirected(exchange.origin, response.status, _public_part(response.headers))
    if response.status == 407 and proxy is not None:
        await response.close()
        raise ProxyRefused(exchange.origin, str(proxy), response.status)
    return response


def _public_part(headers: Headers) -> str:
    """Return where a redirect points, without what may be secret: user, query, fragment."""
    location = re.split(r"[?#]", headers.get("location", ""), maxsplit=1)[0]
    return re.sub(r"//[^/]*@", "//", location)


class StreamedResponse:
    """A response over one connection; see `Response` for the contract."""

    def __init__(self, connection: HttpConnection, exchange: Exchange) -> None:
        self._connection, self._exchange = connection, exchange
        self.status = exchange.status
        """The final status."""
        self.headers = exchange.headers
        """The headers of the response."""

    def __repr__(self) -> str:
        return f"<StreamedResponse {self.status} from {self._exchange.origin}>"

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the body as it arrives."""
        content = self.headers.get("content-encoding", "identity").lower()
        transfer = self.headers.get("transfer-encoding", "chunked").lower()
        if content != "identity" or transfer != "chunked":
            coding = transfer if content == "identity" else content
            raise HttpProtocolError(
                self._exchange.origin,
                f"the body is encoded as {coding!r} although we asked for plain bytes; "
                "turn compression off on the server or the proxy before it",
            )
        return self._exchange

    async def read(self, limit: int) -> bytes:
        """Return the rest of the body."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                await self.close()
                raise BodyTooLarge(self._exchange.origin, limit, bytes(body[:limit]))
        return bytes(body)

    async def close(self) -> None:
        """Drop the rest of the response."""
        self._connection.abandon(self._exchange)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class Pool:
    """The connections of a transport; hands out the one that was used last.

    At most `spare` connections of a route are idle, none for longer than `seconds`; one that
    dies is gone before it can be handed out.
    """

    def __init__(self, spare: int, seconds: float) -> None:
        self._spare, self._seconds = spare, seconds
        self._routes: dict[HttpConnection, HttpRoute] = {}
        self._idle: dict[HttpRoute, list[HttpConnection]] = {}
        self._expiry: dict[HttpConnection, asyncio.TimerHandle] = {}

    def add(self, connection: HttpConnection, route: HttpRoute) -> None:
        """Add a new connection, which is in use."""
        if connection.usable:
            self._routes[connection] = route

    def take(self, route: HttpRoute) -> HttpConnection | None:
        """Take an idle connection on `route`, if there is one."""
        idle = self._idle.get(route, [])
        while idle:
            connection = idle.pop()
            self._expiry.pop(connection).cancel()
            if connection.usable:
                return connection
        return None

    def keep(self, connection: HttpConnection) -> None:
        """Keep a connection for the next request, or close it if there are enough."""
        route = self._routes[connection]
        idle = self._idle.setdefault(route, [])
        idle.append(connection)
        loop = asyncio.get_running_loop()
        self._expiry[connection] = loop.call_later(self._seconds, connection.abort)
        if len(idle) > self._spare:
            idle[0].abort()
            self._drop(idle[0], route)

    def forget(self, connection: HttpConnection) -> None:
        """Forget a connection: it is closed."""
        route = self._routes.pop(connection, None)
        if route is not None and connection in self._expiry:
            self._drop(connection, route)

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._routes):
            connection.abort()
            self.forget(connection)

    def _drop(self, connection: HttpConnection, route: HttpRoute) -> None:
        self._expiry.pop(connection).cancel()
        self._idle[route].remove(connection)
        if not self._idle[route]:
            del self._idle[route]
