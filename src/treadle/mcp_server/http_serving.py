"""Serving over HTTP, for clients that are started by somebody else.

Owns the listening socket, the token and the address. Invariants: without a name that was
given, nobody but this machine is listened to; and the token is in a file that only its owner
can read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from msgspec import Struct

from ..core.errors import ConfigError
from ..core.served_address import LOOPBACK, ServedNames, in_url, listen
from ..core.token_file import ensure_token
from .agent_server import AgentServer
from .http_gate import HttpGate
from .stdio_serving import LONGEST_LINE

__all__ = ["TOKEN_FILE", "TOKEN_VARIABLE", "HttpPlace", "find_token", "serve_http"]

TOKEN_VARIABLE = "TREADLE_MCP_TOKEN"  # noqa: S105 - its name
TOKEN_FILE = "mcp-token"  # noqa: S105 - its name
_PATH = "/mcp"
_MOST_CONNECTIONS = 256
_FAREWELL = 3
"""Seconds that open requests have when the server ends."""


class HttpPlace(Struct, frozen=True, kw_only=True):
    """Where to listen, and who may call."""

    host: str = "127.0.0.1"
    port: int = 0
    hosts: tuple[str, ...] = ()
    """Names under which clients may call it, besides its own on this machine."""
    origins: tuple[str, ...] = ()
    """Pages that may call it, by their origin."""


async def serve_http(
    server: AgentServer, place: HttpPlace, token: str, on_address: Callable[[str], None]
) -> None:
    """Serve until a signal ends the process; tell the address when it listens."""
    if place.host not in LOOPBACK and not place.hosts:
        raise ConfigError(
            f"{place.host!r} can be reached from other machines; name what they call it with "
            "`--allow-host NAME:PORT`, and have a proxy with TLS in front"
        )
    listening = listen(place.host, place.port)
    port = listening.getsockname()[1]
    app = server.protocol.streamable_http_app(
        streamable_http_path=_PATH,
        max_request_body_size=LONGEST_LINE,
        # The gate has checked both, before anything was read.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    gate = HttpGate(app, token, ServedNames.on_loopback(port, place.hosts, place.origins))
    config = uvicorn.Config(
        gate,
        log_level="warning",
        ws="none",
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_FAREWELL,
    )
    try:
        on_address(f"http://{in_url(place.host)}:{port}{_PATH}")
        await uvicorn.Server(config).serve(sockets=[listening])
        await asyncio.sleep(0)  # here Ctrl-C arrives, which the server passes on at its end
    finally:
        listening.close()
        await server.turns.close()


def find_token(home: Path, environ: Mapping[str, str]) -> str:
    """Return the token of a home: the one in the environment, else the one in its file.

    The file is made where there is none. Raises `ConfigError` for one that anybody can guess.
    """
    return ensure_token(home / TOKEN_FILE, TOKEN_VARIABLE, environ)
