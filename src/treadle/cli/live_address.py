"""Where a worker serves its live events.

Invariant: without an address that was given, nobody but this machine can reach them.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..core.errors import ConfigError, InvalidOption
from ..core.install import install_command
from ..core.served_address import LOOPBACK
from .cli_home import Home

if TYPE_CHECKING:
    from ..hosts.live import LiveFeed
    from ..store.postgres import PostgresStore
    from ..store.sqlite import SqliteStore

__all__ = ["serve_live"]

_OFF = "off"


@asynccontextmanager
async def serve_live(
    home: Home, store: SqliteStore | PostgresStore, place: str | None, name: str | None
) -> AsyncIterator[LiveFeed | None]:
    """Serve live events at `place`; None where nobody can hear them."""
    missing = any(importlib.util.find_spec(each) is None for each in ("starlette", "uvicorn"))
    if place == _OFF or (place is None and missing):
        yield None
        return
    if missing:
        raise ConfigError(f"--live needs the extra `web`; {install_command('web')} adds it")
    from ..hosts.live import LiveFeed
    from ..hosts.live_serving import LiveServer, make_live_token

    host, port = _parse(place or "127.0.0.1:0")
    if name is None and host not in LOOPBACK:
        name = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
    feed = LiveFeed()
    token = await asyncio.to_thread(make_live_token, home.path, os.environ)
    server = LiveServer(feed, token, host=host, port=port, name=name or "")
    store.address = server.address
    serving = asyncio.create_task(server.serve())
    try:
        yield feed
    finally:
        server.stop()
        await serving


def _parse(place: str) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise InvalidOption(
            f"--live {place!r} is no address; write HOST:PORT, such as 0.0.0.0:7400"
        )
    return host.strip("[]"), int(port)
