"""Serving live events: who watches a turn from elsewhere asks the worker that has it.

Owns the small HTTP server of a worker. Invariants: nobody is told anything without the token;
what is served is what a host hears, and nothing can be changed through it.

Needs the extra ``web``.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ..core.served_address import in_url, listen
from ..core.token_file import ensure_token
from .live import LiveFeed
from .turn_figures import FIGURES_TYPE
from .watch import TOKEN_FILE, TOKEN_VARIABLE

__all__ = ["LiveServer", "make_live_token"]

_SILENCE = 10.0
"""Seconds after which a word is sent that says nothing: who has gone is noticed so."""


def make_live_token(home: Path, environ: Mapping[str, str]) -> str:
    """Return the token of a home: the one in the environment, else the one in its file.

    The file is made where there is none. Raises `ConfigError` for one that anybody can guess.
    """
    return ensure_token(home / TOKEN_FILE, TOKEN_VARIABLE, environ)


class LiveServer:
    """Serves the events of a feed as server-sent events, until it is stopped."""

    def __init__(
        self, feed: LiveFeed, token: str, *, host: str = "127.0.0.1", port: int = 0, name: str = ""
    ) -> None:
        self._feed, self._token = feed, token
        self._socket = listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://{in_url(name or host)}:{self.port}"
        """What others call it; it stands with the leases of its process."""
        self._server: uvicorn.Server | None = None

    async def serve(self) -> None:
        """Serve until `stop`."""
        app = Starlette(
            routes=[
                Route("/live/{thread}", self._events, methods=["GET"]),
                Route("/metrics", self._figures, methods=["GET"]),
            ]
        )
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # Signals are the worker's to hear.
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        with closing(self._socket):
            await self._server._serve(sockets=[self._socket])  # noqa: SLF001 - `serve` takes signals

    def stop(self) -> None:
        """Let everyone go who watches; `serve` returns soon after."""
        self._feed.close()
        if self._server is not None:
            self._server.should_exit = True

    async def _events(self, request: Request) -> Response:
        if not self._is_shown_token(request):
            return _refusal()
        stream = self._stream(request.path_params["thread"])
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _figures(self, request: Request) -> Response:
        if not self._is_shown_token(request):
            return _refusal()
        return Response(self._feed.figures.text(), media_type=FIGURES_TYPE)

    def _is_shown_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        shown = hmac.compare_digest(token.encode(errors="replace"), self._token.encode())
        return shown and scheme.lower() == "bearer"

    async def _stream(self, thread: str) -> AsyncIterator[bytes]:
        with self._feed.listen(thread) as listener:
            yield b": listening\n\n"
            while True:
                try:
                    async with asyncio.timeout(_SILENCE):
                        event = await listener.next()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if event is None:
                    return
                yield b"data: %b\n\n" % event


def _refusal() -> Response:
    return Response("show the token of this worker\n", 401)
