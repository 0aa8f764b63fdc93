from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from treadle.models.transport import (
    AsyncTransport,
    NoConnection,
    PrivateAddress,
    TimedOut,
    Timeouts,
    TlsTrust,
)
from treadle.models.transport.address import HttpOrigin
from treadle.models.transport.client import Pool
from treadle.models.transport.connection import HttpConnection
from treadle.models.transport.dial import _connect, _connect_to_first

from .servers import Peer, echo, serving, tls_context

ELSEWHERE = "192.52.193.1"
"""An address that counts as public, and where nobody is."""
QUICK = Timeouts(connect=0.3, idle=1.0, total=1.0)


class Resolver:
    """Names have the addresses that come next."""

    def __init__(self, *addresses: str) -> None:
        self.left = list(addresses)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        self.asked.append(host)
        address = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("::1", "fe80::1%lo", "fd00::1", "::ffff:127.0.0.1", "::"),
        # Addresses that wrap others, that nobody routes, and that many listen to.
        *("64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::1", "::10.0.0.1", "fec0::1"),
        *("224.0.0.1", "ff02::1", "192.88.99.1", "2001:db8::1"),
    ],
)
async def test_nothing_is_sent_to_a_private_address_when_only_public_ones_are_meant(
    address: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", Resolver(address))
    async with AsyncTransport() as transport:
        with pytest.raises(PrivateAddress, match="leads into a private network") as caught:
            await transport.post("https://hook.example/x", b"", {}, public=True)
    assert not caught.value.retryable


async def test_a_name_that_changes_its_address_is_not_followed_inside(
    monkeypatch: pytest.MonkeyPatch,
):
    resolver = Resolver(ELSEWHERE, "127.0.0.1")
    async with serving(echo) as server, AsyncTransport() as transport:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)
        with pytest.raises((NoConnection, TimedOut)) as caught:
            await transport.post(
                f"http://hook.example:{server.port}/x", b"secret", {}, timeouts=QUICK, public=True
            )
    assert not isinstance(caught.value, PrivateAddress)
    assert (server.accepted, resolver.asked) == (0, ["hook.example"])


async def test_a_kept_connection_into_a_private_network_is_no_way_out():
    async with serving(echo) as server, AsyncTransport() as transport:
        url = server.url()
        async with await transport.post(url, b"a", {}) as response:
            assert await response.read(10) == b"a"
        with pytest.raises(PrivateAddress):
            await transport.post(url, b"b", {}, public=True)
    assert server.accepted == 1


async def test_the_next_address_is_tried_when_one_does_not_answer():
    async with serving(echo) as server:
        reached = await _connect_to_first(["127.0.0.2", "127.0.0.1"], server.port)
        with reached:
            assert reached.getpeername() == ("127.0.0.1", server.port)


async def test_the_last_address_says_why_none_was_reached():
    with pytest.raises(ConnectionRefusedError):
        await _connect_to_first(["127.0.0.2", "127.0.0.1"], 1)


async def test_an_address_that_was_looked_at_must_prove_the_name(
    authority: trustme.CA, bundle: Path
):
    names: list[str | None] = []
    tls = tls_context(authority, "hook.example")
    tls.sni_callback = lambda _socket, name, _context: names.append(name)

    async def handler(peer: Peer) -> None:
        await peer.reader.read()

    async with serving(handler, tls=tls) as server:
        for host, error in (("hook.example", None), ("other.example", ssl.SSLError)):
            origin = HttpOrigin("https", host, server.port)
            connection = HttpConnection(str(origin), Pool(1, 1.0))
            context = await asyncio.to_thread(TlsTrust(files=(bundle,)).make_context)
            reached = await _connect_to_first(["127.0.0.1"], server.port)
            if error is None:
                await _connect(connection, origin, context, reached)
            else:
                with pytest.raises(error):
                    await _connect(connection, origin, context, reached)
            connection.abort()
            await asyncio.sleep(0.01)
    assert names == ["hook.example", "other.example"]
