"""Opens a connection: name, TCP, proxy tunnel, TLS.

Invariant: every failure here is a `NoConnection` that names the part that failed and what to
do about it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_address

from ...core.addresses import is_public_address
from .address import HttpOrigin, HttpRoute, Proxy, is_this_machine
from .connection import ConnectionOwner, HttpConnection
from .contract import Timeouts
from .errors import (
    ConnectionClosed,
    ConnectRefused,
    NameNotFound,
    NoConnection,
    PrivateAddress,
    ProxyRefused,
    TlsFailed,
    TransportError,
)
from .http_request import HttpRequest
from .socks import open_socks_tunnel
from .tls import TlsContext

__all__ = ["dial"]

_HEAD_START = 0.25
"""Seconds an address family gets before the next one is tried beside it (RFC 8305)."""
_SECONDS_EACH = 2.0
"""Seconds that a checked address gets, unless it is the last one."""

_NO_TIMEOUTS = Timeouts(connect=None, idle=None)


async def dial(route: HttpRoute, tls: TlsContext | None, owner: ConnectionOwner) -> HttpConnection:
    """Open a connection that speaks HTTP with the end of `route`."""
    first = route.proxy.origin if route.proxy is not None else route.origin
    connection = HttpConnection(str(route.origin), owner)
    try:
        hosts = await _public_addresses(route.origin) if route.public else []
        if route.proxy is not None:
            await _connect_through(connection, route, route.proxy, tls)
        elif hosts:
            await _connect(connection, first, tls, await _connect_to_first(hosts, first.port))
        else:
            await _connect(connection, first, tls)
    except OSError as error:
        connection.abort()
        raise _transport_error(error, route.origin, first.host) from error
    except BaseException:
        connection.abort()
        raise
    if tls is not None:
        connection.remember = tls.remember
    return connection


async def _connect_through(
    connection: HttpConnection, route: HttpRoute, proxy: Proxy, tls: TlsContext | None
) -> None:
    """Connect to the proxy, and through it to the end of `route` where it opens a tunnel."""
    if proxy.socks:
        hosts = await _addresses(proxy.origin)
        connected = await _connect_to_first(hosts, proxy.origin.port)
        try:
            await open_socks_tunnel(connected, route, _addresses)
        except BaseException:
            connected.close()
            raise
        inner = tls if route.origin.scheme == "https" else None
        await _connect(connection, route.origin, inner, connected)
        return
    await _connect(connection, proxy.origin, tls if proxy.origin.scheme == "https" else None)
    if route.uses_tunnel:
        assert tls is not None
        await _tunnel(connection, route)
        await _start_tls(connection, route.origin, tls)


async def _addresses(origin: HttpOrigin) -> list[str]:
    """Return the addresses of a host, each once."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


async def _public_addresses(origin: HttpOrigin) -> list[str]:
    """Return the addresses of a host, each once. Raises `PrivateAddress` unless all are public."""
    hosts = await _addresses(origin)
    if not all(map(is_public_address, hosts)):
        raise PrivateAddress(str(origin), origin.host)
    return hosts


async def _connect_to_first(hosts: list[str], port: int) -> socket.socket:
    """Connect a socket to the first of these addresses that accepts it."""
    *others, last = hosts
    for host in others:
        with suppress(OSError):
            async with asyncio.timeout(_SECONDS_EACH):
                return await _connect_socket(host, port)
    return await _connect_socket(last, port)


async def _connect_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (host, port))
    except BaseException:
        connected.close()
        raise
    return connected


async def _connect(
    connection: HttpConnection,
    origin: HttpOrigin,
    tls: TlsContext | None,
    connected: socket.socket | None = None,
) -> None:
    loop = asyncio.get_running_loop()
    name = origin.host if tls is not None else None
    if connected is not None:
        await loop.create_connection(
            lambda: connection, sock=connected, ssl=tls, server_hostname=name
        )
        return
    await loop.create_connection(
        lambda: connection,
        origin.host,
        origin.port,
        ssl=tls,
        server_hostname=name,
        # One address needs no race; asyncio's race leaves a socket open when it is cancelled.
        happy_eyeballs_delay=None if _is_address(origin.host) else _HEAD_START,
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _tunnel(connection: HttpConnection, route: HttpRoute) -> None:
    """Ask the proxy to pass bytes on."""
    assert route.proxy is not None
    origin, proxy = route.origin, route.proxy
    authority = f"{origin.url_host}:{origin.port}"
    lines = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n".encode()
    request = HttpRequest(route, lines + proxy.header + b"\r\n", b"", _NO_TIMEOUTS)
    try:
        exchange = await connection.send(request, tunnel=True)
    except ConnectionClosed as error:
        raise NoConnection(
            str(origin),
            f"the proxy {str(proxy)!r} closed the connection; check that it is an HTTP proxy",
        ) from error
    if not 200 <= exchange.status < 300:
        raise ProxyRefused(str(origin), str(proxy), exchange.status)


async def _start_tls(connection: HttpConnection, origin: HttpOrigin, tls: TlsContext) -> None:
    transport = await asyncio.get_running_loop().start_tls(
        connection.transport, connection, tls, server_hostname=origin.host
    )
    if transport is None:
        raise ConnectionResetError(errno.ECONNRESET, "closed during the handshake")
    connection.secure(transport)


def _transport_error(error: OSError, origin: HttpOrigin, host: str) -> TransportError:
    where = str(origin)
    match error:
        case socket.gaierror():
            temporary = error.errno == socket.EAI_AGAIN
            return NameNotFound(where, host, temporary=temporary)
        case ssl.SSLCertVerificationError():
            return TlsFailed(
                where,
                f"its certificate is not trusted ({error.verify_message}); if your own "
                "authority signs it, name that authority's file in SSL_CERT_FILE",
            )
        case ssl.SSLError():
            reason = error.reason or "handshake failed"
            return TlsFailed(
                where, f"TLS failed ({reason}); check scheme, port and the server's TLS version"
            )
    if _all_refused(error):
        return ConnectRefused(where, host, here=is_this_machine(host))
    reason = error.strerror or str(error) or type(error).__name__
    return NoConnection(where, f"no connection to {host!r} ({reason}); check the network")


def _all_refused(error: OSError) -> bool:
    # With several addresses asyncio joins the errors of all into one text.
    refused = f"[Errno {errno.ECONNREFUSED}]"
    text = str(error)
    return refused in text and text.count(refused) == text.count("[Errno ")
