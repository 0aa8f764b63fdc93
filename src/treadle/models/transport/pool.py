"""Connections between requests.

Owns every open connection of a transport, so that closing it closes them all.
Invariant: at most `spare` idle connections per route, none older than `seconds`;
one that dies is gone before it can be handed out.
"""

from __future__ import annotations

import asyncio

from .connection import HttpConnection
from .proxies import HttpRoute

__all__ = ["Pool"]


class Pool:
    """Hands out the connection that was used last."""

    def __init__(self, spare: int, seconds: float) -> None:
        self._spare, self._seconds = spare, seconds
        self._routes: dict[HttpConnection, HttpRoute] = {}
        self._idle: dict[HttpRoute, list[HttpConnection]] = {}
        self._expiry: dict[HttpConnection, asyncio.TimerHandle] = {}

    def add(self, connection: HttpConnection, route: HttpRoute) -> None:
        """A new connection, in use."""
        if connection.usable:
            self._routes[connection] = route

    def take(self, route: HttpRoute) -> HttpConnection | None:
        """An idle connection along `route`, if there is one."""
        idle = self._idle.get(route, [])
        while idle:
            connection = idle.pop()
            self._expiry.pop(connection).cancel()
            if connection.usable:
                return connection
        return None

    def keep(self, connection: HttpConnection) -> None:
        """Keep it for the next request, or close it if there are enough."""
        route = self._routes[connection]
        idle = self._idle.setdefault(route, [])
        idle.append(connection)
        loop = asyncio.get_running_loop()
        self._expiry[connection] = loop.call_later(self._seconds, connection.abort)
        if len(idle) > self._spare:
            idle[0].abort()
            self._drop(idle[0], route)

    def forget(self, connection: HttpConnection) -> None:
        """It is closed."""
        route = self._routes.pop(connection, None)
        if route is not None and connection in self._expiry:
            self._drop(connection, route)

    def close(self) -> None:
        """Close all of them."""
        for connection in list(self._routes):
            connection.abort()
            self.forget(connection)

    def _drop(self, connection: HttpConnection, route: HttpRoute) -> None:
        self._expiry.pop(connection).cancel()
        self._idle[route].remove(connection)
        if not self._idle[route]:
            del self._idle[route]
