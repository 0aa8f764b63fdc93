"""Web hooks: addresses that lead into the network that Treadle runs in.

Every name resolves to this machine, so that nothing leaves it. Weakness: private addresses
are allowed.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from typing import Any

from attack.attempt import Area
from attack.ground import Ground
from treadle.delivery.channel import Delivery, Reply
from treadle.delivery.channels.webhook import WebhookChannel
from treadle.models.transport import AsyncTransport, PrivateAddress, Timeouts, TransportError

__all__ = ["AREA"]

AREA = Area("webhooks", "web hooks that lead inside", "private addresses are allowed")

QUICK = Timeouts(connect=0.5, idle=1.0, total=1.0)
LITERAL = (
    *("127.0.0.1", "127.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "017700000001"),
    *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "127.0.0.1."),
    *("localhost.", "①27.0.0.1", "ⓛocalhost"),
)
RANGES = {
    "private": ("10.0.0.1", "172.16.0.1", "192.168.1.1", "fd00::1"),
    "link-local": ("169.254.169.254", "fe80::1"),
    "shared": ("100.64.0.1",),
    "NAT64": ("64:ff9b::7f00:1", "64:ff9b:1::a00:1"),
    "6to4": ("2002:7f00:1::", "192.88.99.1"),
    "compatible": ("::10.0.0.1", "::7f00:1"),
    "site-local": ("fec0::1",),
    "multicast": ("224.0.0.1", "ff02::1", "ff0e::1"),
    "reserved": ("240.0.0.1", "255.255.255.255", "192.0.0.1", "198.18.0.1", "100::1"),
    "for documents": ("2001:db8::1", "192.0.2.1", "3fff::1"),
    "tunnels": ("2001::1", "5f00::1"),
}


@AREA.attempt(quick=True, proof=True)
async def name_this_machine(ground: Ground) -> str:
    """A web hook's address is this machine's, in sixteen spellings.

    Through if a connection arrives.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        async with AsyncTransport() as transport:
            for host in LITERAL:
                _resolve("127.0.0.1")
                await _post(transport, f"http://{host}:{port}/x", public=not ground.weak)
        try:
            server.accept()
        except BlockingIOError:
            return ""
        return "somebody connected"


@AREA.each(RANGES, quick="NAT64")
async def resolve_to_an_address_that_is_not_public(
    ground: Ground, addresses: tuple[str, ...]
) -> str:
    """A public name resolves to an address of a range that is not global unicast.

    Through if it is not refused for that reason, before anything is sent.
    """
    del ground
    through = []
    async with AsyncTransport() as transport:
        for address in addresses:
            _resolve(address)
            said = await _post(transport, "https://hook.example/x", public=True)
            if said != PrivateAddress.__name__:
                through.append((address, said))
    return f"not refused: {through}" if through else ""


@AREA.attempt(proof=True)
async def deliver_into_the_network(ground: Ground) -> str:
    """A reply is delivered to a web hook on this machine. Through if it arrives."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        async with AsyncTransport() as transport:
            scheme = "http" if ground.weak else "https"
            url = f"{scheme}://127.0.0.1:{port}/x"
            channel = WebhookChannel(url, "s", transport, private=ground.weak, timeouts=QUICK)
            reply = Reply(text="hello")
            await channel.deliver(Delivery(key="k", thread="t", turn=1, to="you", reply=reply))
        try:
            server.accept()
        except BlockingIOError:
            return ""
        return "it arrived"


def _resolve(address: str) -> None:
    """Let every name lead to one address."""

    async def answer(host: str, port: int, **_: Any) -> list[Any]:
        del host
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    asyncio.get_running_loop().getaddrinfo = answer  # type: ignore[method-assign, assignment]


async def _post(transport: AsyncTransport, url: str, *, public: bool) -> str:
    try:
        await transport.post(url, b"{}", {}, timeouts=QUICK, public=public)
    except TransportError as error:
        return type(error).__name__
    return "answered"
