"""One HTTP request, ready to be sent.

Invariants: every error in a URL or a header is found here, before a connection is touched;
no header that is sent holds a byte that could end its line; neither a `repr` nor an error
shows what a request says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from .address import Address, HttpRoute, Proxies, parse_url
from .contract import Timeouts
from .errors import RequestRefused

__all__ = ["HttpRequest", "deadline_in", "encode_fields", "prepare"]

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a pattern
_UNSAFE = r"[\x00-\x08\x0a-\x1f\x7f]"
_OURS = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        "upgrade",
    )
)


class HttpRequest(Struct, frozen=True):
    """The bytes to send, their route, and how long the exchange may last."""

    route: HttpRoute
    head: bytes
    body: bytes
    timeouts: Timeouts
    deadline: float | None = None

    def __repr__(self) -> str:
        return f"<HttpRequest to {self.route.origin}>"


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
    """Return the request as it will be sent. Raises `RequestRefused`."""
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
    """Return the loop's time so many seconds from now."""
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


def encode_fields(headers: Mapping[str, str], origin: str) -> bytes:
    """Return the caller's header lines. Raises `RequestRefused`, which names the wrong one."""
    return b"".join(_encode_field(name, value, origin) for name, value in headers.items())


def _first_lines(method: str, address: Address, route: HttpRoute, body: bytes | None) -> str:
    origin = address.origin
    is_forwarded = route.proxy is not None and not route.uses_tunnel
    target = f"{origin}{address.target}" if is_forwarded else address.target
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {origin.authority}\r\n"
        f"Accept-Encoding: identity\r\n{length}"
    )


def _encode_field(name: str, value: str, origin: str) -> bytes:
    if problem := _problem_of_name(name):
        raise RequestRefused(origin, problem)
    if re.search(_UNSAFE, value):
        raise RequestRefused(
            origin, f"header {name!r} has a line break or control character in it; remove it"
        )
    try:
        return f"{name}: {value}\r\n".encode("latin-1")
    except UnicodeEncodeError:
        # Its text would show the value.
        raise RequestRefused(
            origin, f"header {name!r} has a character outside Latin-1; encode it"
        ) from None


@lru_cache(maxsize=256)
def _problem_of_name(name: str) -> str:
    """Return why a header cannot be called so; empty if it can."""
    if not re.fullmatch(_TOKEN, name):
        return f"{name!r} is not a header name; correct it"
    return f"header {name!r} is the transport's own; leave it out" if name.lower() in _OURS else ""
