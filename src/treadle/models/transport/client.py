"""HTTP/1.1 over asyncio: the transport that Treadle uses by default.

Owns the pool, the proxies and the TLS context of one event loop. Invariant: a
request is sent twice only if the first went out on a kept connection that died
without a byte of an answer.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from .connection import HttpConnection
from .contract import DEFAULT_TIMEOUTS, Timeouts
from .dial import dial
from .errors import ConnectionClosed, Phase, ProxyRefused, Redirected, TimedOut, TransportClosed
from .headers import Headers
from .pool import Pool
from .proxies import Proxies
from .request import HttpRequest, deadline_in, prepare
from .response import StreamedResponse
from .trust import TlsContext, TlsTrust

__all__ = ["AsyncTransport"]

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
        """Proxies and authorities as the usual variables name them."""
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
        """POST `body`; returns when the head of the answer is there."""
        request = prepare("POST", url, headers, timeouts, self._proxies, body=body, public=public)
        return await self._answer(request)

    async def get(
        self, url: str, headers: Mapping[str, str], *, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> StreamedResponse:
        """GET `url`; returns when the head of the answer is there."""
        request = prepare("GET", url, headers, timeouts, self._proxies, body=None)
        return await self._answer(request)

    async def close(self) -> None:
        """Close every connection, busy ones too."""
        self._closed = True
        self._pool.close()
        # A transport's socket is closed a step of the loop after its abort, that of a dial
        # which was given up two steps after.
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

    async def _answer(self, request: HttpRequest) -> StreamedResponse:
        if self._closed:
            raise TransportClosed(str(request.route.origin))
        if (kept := self._pool.take(request.route)) is not None:
            try:
                return await _ask(kept, request)
            except ConnectionClosed as error:
                if error.answered:
                    raise
        return await _ask(await self._connect(request), request)

    async def _connect(self, request: HttpRequest) -> HttpConnection:
        route, timeouts = request.route, request.timeouts
        phase: Phase = "connect"
        when, seconds = deadline_in(timeouts.connect), timeouts.connect
        if request.deadline is not None and (when is None or request.deadline < when):
            phase, when, seconds = "total", request.deadline, timeouts.total
        try:
            async with asyncio.timeout_at(when):
                tls = await self._context() if route.origin.scheme == "https" else None
                connection = await dial(route, tls, self._pool)
        except TimeoutError:
            raise TimedOut(str(route.origin), phase, seconds or 0.0) from None
        if self._closed:
            connection.abort()
            raise TransportClosed(str(route.origin))
        self._pool.add(connection, route)
        return connection

    async def _context(self) -> TlsContext:
        """The TLS context, made once and off the loop: it reads a few hundred certificates."""
        if self._tls is None:
            work = asyncio.to_thread(self._trust.context)
            self._tls = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(self._tls)
        except Exception:
            self._tls = None
            raise


async def _ask(connection: HttpConnection, request: HttpRequest) -> StreamedResponse:
    exchange = await connection.ask(request)
    response = StreamedResponse(connection, exchange)
    proxy = request.route.proxy
    if response.status in _REDIRECTS:
        await response.close()
        raise Redirected(exchange.origin, response.status, _public_part(response.headers))
    if response.status == 407 and proxy is not None:
        await response.close()
        raise ProxyRefused(exchange.origin, str(proxy.origin), response.status)
    return response


def _public_part(headers: Headers) -> str:
    """Where a redirect points, without what may be secret: user, query, fragment."""
    location = re.split(r"[?#]", headers.get("location", ""), maxsplit=1)[0]
    return re.sub(r"//[^/]*@", "//", location)
