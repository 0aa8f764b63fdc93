"""Where a request goes: its URL taken apart once.

Invariant: an `Address` can be put on the wire as it stands, and printing an
`Origin` gives away neither path nor query.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal
from urllib.parse import quote, urlsplit

from msgspec import Struct

from ...core.patterns import regex
from .errors import RequestRefused

__all__ = ["Address", "HttpOrigin", "parse_url"]

_UNPRINTABLE = regex(r"[\x00-\x20\x7f]")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_KEPT = "/%:@!$&'()*+,;=-._~?"


class HttpOrigin(Struct, frozen=True):
    """Who is asked."""

    scheme: Literal["http", "https"]
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port as a `Host` header has them."""
        is_default = self.port == _DEFAULT_PORTS[self.scheme]
        return self.url_host if is_default else f"{self.url_host}:{self.port}"

    @property
    def url_host(self) -> str:
        """The host; an IPv6 address in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host


class Address(Struct, frozen=True):
    """An origin, and what is asked of it."""

    origin: HttpOrigin
    target: str


@lru_cache(maxsize=128)
def parse_url(url: str) -> Address:
    """The parts of an absolute ``http`` or ``https`` URL."""
    if _UNPRINTABLE.search(url):
        raise RequestRefused("", "the URL has a space or control character in it; remove it")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise RequestRefused("", "the URL cannot be read; correct its host and port") from None
    if parts.scheme not in ("http", "https") or not host:
        raise RequestRefused("", "the URL must start with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise RequestRefused("", "the URL holds a user or password; send them in a header")
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    origin = HttpOrigin(scheme, _ascii(host), port or _DEFAULT_PORTS[scheme])
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    return Address(origin, (quote(parts.path, safe=_KEPT) or "/") + query)


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise RequestRefused("", f"{host!r} is no host name; correct the URL") from None
