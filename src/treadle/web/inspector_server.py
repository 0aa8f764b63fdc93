"""Serving the inspector: the application, the socket, the link.

Owns the life of the server. Invariants: without a name that was given, nobody but this machine
is listened to; the token is in the fragment of the link, which no browser sends, and nowhere
else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing

import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.routing import Route

from ..core.errors import ConfigError
from ..core.redact import add_secrets
from ..core.served_address import LOOPBACK, ServedNames, in_url, listen
from .api import reading_routes
from .control import acting_routes
from .gate import App, Keys, WebGate
from .inspector import Inspector
from .static_files import PageFiles, read_page

__all__ = ["WebPlace", "WebServer", "web_app"]

_MOST_CONNECTIONS = 128
_FAREWELL = 1
"""Seconds that open requests have when the server ends."""


class WebPlace(Struct, frozen=True, kw_only=True):
    """Where to listen, and who may call."""

    host: str = "127.0.0.1"
    port: int = 0
    hosts: tuple[str, ...] = ()
    """Names under which browsers may call it, besides its own on this machine."""


def web_app(inspector: Inspector) -> App:
    """Return the application, without the gate in front of it."""
    files = PageFiles(read_page())
    static = [
        Route("/", files.index, methods=["GET"]),
        Route("/page/{name:path}", files.file, methods=["GET"]),
    ]
    acting = acting_routes(inspector, inspector.live)
    return Starlette(routes=[*static, *reading_routes(inspector), *acting])


class _Server(uvicorn.Server):
    """A server that says farewell to those who listen, before it waits for them."""

    def __init__(self, config: uvicorn.Config, farewell: Callable[[], None]) -> None:
        super().__init__(config)
        self._farewell = farewell

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would go on for ever, then the server."""
        self._farewell()
        await super().shutdown(sockets)


class WebServer:
    """Serves an inspector until it is stopped, by a signal or by `stop`."""

    def __init__(self, inspector: Inspector, place: WebPlace) -> None:
        if place.host not in LOOPBACK and not place.hosts:
            raise ConfigError(
                f"{place.host!r} can be reached from other machines; name what they call it with "
                "`--allow-host NAME:PORT`, and have a proxy with TLS in front"
            )
        self._inspector, self._place = inspector, place
        self._socket = listen(place.host, place.port)
        self.port: int = self._socket.getsockname()[1]
        self.keys = Keys(self.port)
        self._server: uvicorn.Server | None = None
        self._stopped = False
        add_secrets(self.keys.token, self.keys.session)

    @property
    def url(self) -> str:
        """Its address, without the token."""
        return f"http://{in_url(self._place.host)}:{self.port}/"

    @property
    def link(self) -> str:
        """The link that opens the page."""
        return f"{self.url}#token={self.keys.token}"

    async def serve(self, on_start: Callable[[], None] = lambda: None) -> None:
        """Serve until it is stopped; `on_start` is called when it listens."""
        origins = [f"http://{name}" for name in self._place.hosts]
        origins += [f"https://{name}" for name in self._place.hosts]
        names = ServedNames.on_loopback(self.port, self._place.hosts, origins)
        config = uvicorn.Config(
            WebGate(web_app(self._inspector), self.keys, names),
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_FAREWELL,
        )
        self._server = _Server(config, self._inspector.following.end_streams)
        self._server.should_exit = self._stopped
        with closing(self._socket):
            try:
                on_start()
                await self._server.serve(sockets=[self._socket])
                await asyncio.sleep(0)  # here Ctrl-C arrives, which the server passes on at its end
            finally:
                await self._inspector.close()

    def stop(self) -> None:
        """Stop serving; `serve` returns soon after."""
        self._stopped = True
        if self._server is not None:
            self._server.should_exit = True
