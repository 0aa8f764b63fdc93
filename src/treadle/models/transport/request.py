"""One request, ready for the wire.

Invariant: whatever is wrong with a URL or a header is found here, before a
connection is touched; a `repr` shows where a request goes, never what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from .address import Address, parse_url
from .contract import Timeouts
from .headers import encode_fields
from .proxies import HttpRoute, Proxies

__all__ = ["HttpRequest", "deadline_in", "prepare"]


class HttpRequest(Struct, frozen=True):
    """Bytes, the way they take, and how long that may last."""

    route: HttpRoute
    head: bytes
    body: bytes
    timeouts: Timeouts
    deadline: float | None = None

    def __repr__(self) -> str:
        return f"<Request to {self.route.origin}>"


def prepare(
    method: str,
    url: str,
    headers: Mapping[str, str],
    timeouts: Timeouts,
    proxies: Proxies,
    *,
    body: bytes | None,
    public: bool = False,
) -> HttpRequest:
    """The request as it will be sent, or `RequestRefused`."""
    address = parse_url(url)
    route = HttpRoute(address.origin, proxies.choose(address.origin), public)
    head = b"".join(
        (
            _first_lines(method, address, route, body).encode("ascii"),
            route.proxy.header if route.proxy is not None and not route.uses_tunnel else b"",
            encode_fields(headers, str(address.origin)),
            b"\r\n",
        )
    )
    return HttpRequest(route, head, body or b"", timeouts, deadline_in(timeouts.total))


def deadline_in(seconds: float | None) -> float | None:
    """The loop's time so many seconds from now."""
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


def _first_lines(method: str, address: Address, route: HttpRoute, body: bytes | None) -> str:
    origin = address.origin
    is_forwarded = route.proxy is not None and not route.uses_tunnel
    target = f"{origin}{address.target}" if is_forwarded else address.target
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {origin.authority}\r\n"
        f"Accept-Encoding: identity\r\n{length}"
    )
