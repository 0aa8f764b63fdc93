"""The way through a SOCKS5 proxy (RFC 1928, passwords by RFC 1929).

Owns the few messages before a connection carries our bytes. Invariants: nothing is read
beyond the proxy's last message, so that what follows belongs to the other end; no text shows
the password.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from .address import HttpOrigin, HttpRoute, Proxy
from .errors import NoConnection

__all__ = ["open_socks_tunnel"]

_VERSION = 5
_NO_LOGIN, _PASSWORD = 0, 2
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_LONGEST = 255
"""Bytes of a name, a user or a password."""
_REASONS = {
    1: "it failed",
    2: "its rules forbid it",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "the host refuses connections",
    6: "it took too long",
    7: "it does not know the command",
    8: "it does not know this kind of address",
}
_PASSING = frozenset((1, 3, 4, 6))


async def open_socks_tunnel(
    connected: socket.socket,
    route: HttpRoute,
    resolve: Callable[[HttpOrigin], Awaitable[list[str]]],
) -> None:
    """Let the proxy of `route` connect us to its end. Raises `NoConnection` and `OSError`.

    `resolve` finds the addresses of a host, where the proxy is not to look up names.
    """
    proxy, origin = route.proxy, route.origin
    assert proxy is not None
    await _log_in(connected, route, proxy)
    host = origin.host if proxy.resolves_names else (await resolve(origin))[0]
    request = bytes((_VERSION, _CONNECT, 0)) + _address(host) + origin.port.to_bytes(2, "big")
    await _send(connected, request)
    _, code, _, kind = await _receive(connected, 4)
    if code != 0:
        reason = _REASONS.get(code, f"code {code}")
        error = _refusal(route, f"{reason}; ask the owner of the proxy, or name the host")
        error.retryable = code in _PASSING
        raise error
    size = {_IPV4: 4, _IPV6: 16}.get(kind)
    await _receive(connected, 2 + (size or (await _receive(connected, 1))[0]))


async def _log_in(connected: socket.socket, route: HttpRoute, proxy: Proxy) -> None:
    methods = bytes((_NO_LOGIN, _PASSWORD)) if proxy.login is not None else bytes((_NO_LOGIN,))
    await _send(connected, bytes((_VERSION, len(methods))) + methods)
    version, method = await _receive(connected, 2)
    if version != _VERSION:
        raise _refusal(route, "it does not speak SOCKS5; check its URL")
    if method == _NO_LOGIN:
        return
    if method != _PASSWORD or proxy.login is None:
        raise _refusal(route, "it wants a login; put its user and password into its URL")
    user, password = (part.encode()[:_LONGEST] for part in proxy.login)
    await _send(
        connected,
        b"\x01" + bytes((len(user),)) + user + bytes((len(password),)) + password,
    )
    _, status = await _receive(connected, 2)
    if status != 0:
        raise _refusal(route, "it does not accept the user and password in its URL")


def _address(host: str) -> bytes:
    try:
        packed = ip_address(host).packed
    except ValueError:
        name = host.encode("ascii")[:_LONGEST]
        return bytes((_NAME, len(name))) + name
    return bytes((_IPV4 if len(packed) == 4 else _IPV6,)) + packed


async def _send(connected: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(connected, data)


async def _receive(connected: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes."""
    data = b""
    while len(data) < size:
        more = await asyncio.get_running_loop().sock_recv(connected, size - len(data))
        if not more:
            raise ConnectionResetError(errno.ECONNRESET, "closed by the proxy")
        data += more
    return data


def _refusal(route: HttpRoute, why: str) -> NoConnection:
    assert route.proxy is not None
    error = NoConnection(str(route.origin), f"the proxy {str(route.proxy)!r} refused: {why}")
    error.retryable = False
    return error
