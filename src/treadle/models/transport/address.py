"""The address of a request, and the proxy on its way.

Owns the parsing of URLs and of the usual proxy variables. Invariants: an `Address` can be
sent as it is; printing an `HttpOrigin` shows neither path nor query, and a `repr` never shows
a proxy's password; requests to this machine never go through a proxy.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from ...core.errors import ConfigError
from .errors import RequestRefused

__all__ = [
    "Address",
    "Bypass",
    "HttpOrigin",
    "HttpRoute",
    "Proxies",
    "Proxy",
    "is_this_machine",
    "parse_url",
]

_UNPRINTABLE = r"[\x00-\x20\x7f]"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_KEPT = "/%:@!$&'()*+,;=-._~?"


class HttpOrigin(Struct, frozen=True):
    """Scheme, host and port of a server."""

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
    """An origin, and the path and query on it."""

    origin: HttpOrigin
    target: str


@lru_cache(maxsize=128)
def parse_url(url: str) -> Address:
    """Return the parts of an absolute ``http`` or ``https`` URL. Raises `RequestRefused`."""
    if re.search(_UNPRINTABLE, url):
        raise RequestRefused("", "the URL has a space or control character in it; remove it")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise RequestRefused("", "the URL cannot be read; correct its host and port") from None
    if parts.scheme not in ("http", "https") or not host:
        raise RequestRefused("", "the URL must start with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise RequestRefused("", "the URL contains a user or password; send them in a header")
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
        raise RequestRefused("", f"{host!r} is not a host name; correct the URL") from None


class Proxy(Struct, frozen=True):
    """A proxy and the login for it: HTTP, HTTP over TLS, or SOCKS5."""

    origin: HttpOrigin
    login: tuple[str, str] | None = None
    """User and password."""
    socks: bool = False
    resolves_names: bool = True
    """Whether the proxy looks up the names of hosts; for SOCKS only."""

    def __str__(self) -> str:
        return (
            f"socks5://{self.origin.url_host}:{self.origin.port}"
            if self.socks
            else str(self.origin)
        )

    def __repr__(self) -> str:
        return f"Proxy({str(self)!r})"

    @property
    def credentials(self) -> str:
        """The value of a `Proxy-Authorization` header; empty without a login."""
        if self.login is None:
            return ""
        return f"Basic {b64encode(':'.join(self.login).encode()).decode('ascii')}"

    @property
    def header(self) -> bytes:
        """The header line that carries the credentials, if there are any."""
        return f"Proxy-Authorization: {self.credentials}\r\n".encode() if self.login else b""


class Bypass(Struct, frozen=True):
    """One rule of `NO_PROXY`: a name and all beneath it, or a network; on one port or any."""

    name: str = ""
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None

    def covers(self, origin: HttpOrigin) -> bool:
        """Return whether requests to `origin` go directly."""
        if self.port is not None and self.port != origin.port:
            return False
        if self.name == "*":
            return True
        if self.network is not None:
            return _in_network(origin.host, self.network)
        host = origin.host.rstrip(".")
        return host == self.name or host.endswith(f".{self.name}")


class Proxies(Struct, frozen=True):
    """A proxy for each scheme, and the rules about when to use none."""

    http: Proxy | None = None
    https: Proxy | None = None
    bypasses: tuple[Bypass, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Proxies:
        """Read `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`; lower case wins."""
        # A web server hands a client's `Proxy:` header to CGI programs as HTTP_PROXY.
        in_cgi = "REQUEST_METHOD" in environment
        everything = _parse_proxy(environment, "all_proxy", "ALL_PROXY")
        upper = ("HTTP_PROXY",) if not in_cgi else ()
        return cls(
            http=_parse_proxy(environment, "http_proxy", *upper) or everything,
            https=_parse_proxy(environment, "https_proxy", "HTTPS_PROXY") or everything,
            bypasses=_parse_bypasses(
                environment.get("no_proxy") or environment.get("NO_PROXY") or ""
            ),
        )

    def choose(self, origin: HttpOrigin) -> Proxy | None:
        """Return the proxy for requests to `origin`; None for a direct connection."""
        proxy = self.https if origin.scheme == "https" else self.http
        if proxy is None or is_this_machine(origin.host):
            return None
        return None if any(rule.covers(origin) for rule in self.bypasses) else proxy


class HttpRoute(Struct, frozen=True):
    """An origin and the proxy on the way there; connections on one route are interchangeable."""

    origin: HttpOrigin
    proxy: Proxy | None = None
    public: bool = False
    """Whether the origin must lie outside this machine and its networks."""

    @property
    def uses_tunnel(self) -> bool:
        """Whether the proxy opens a tunnel and passes bytes on."""
        return self.proxy is not None and (self.proxy.socks or self.origin.scheme == "https")

    @property
    def uses_tls(self) -> bool:
        """Whether any part of the way is encrypted."""
        through_tls = self.proxy is not None and self.proxy.origin.scheme == "https"
        return through_tls or self.origin.scheme == "https"


def _parse_proxy(environment: Mapping[str, str], *names: str) -> Proxy | None:
    name = next((name for name in names if environment.get(name)), None)
    if name is None:
        return None
    url = environment[name]
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in _PROXY_PORTS or not host:
        # The value may hold a password, so it is not shown.
        raise ConfigError(
            f"{name} is not a proxy that we know; set it to SCHEME://[user:password@]host[:port] "
            f"with one of {', '.join(_PROXY_PORTS)}, or unset it"
        )
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    user, password = parts.username, parts.password
    return Proxy(
        HttpOrigin(scheme, host, port or _PROXY_PORTS[parts.scheme]),
        None if user is None else (unquote(user), unquote(password or "")),
        socks=parts.scheme.startswith("socks"),
        resolves_names=parts.scheme != "socks5",
    )


def _parse_bypasses(text: str) -> tuple[Bypass, ...]:
    return tuple(_parse_bypass(rule.lower()) for rule in text.replace(",", " ").split())


def _parse_bypass(rule: str) -> Bypass:
    if (network := _parse_network(rule.strip("[]"))) is not None:
        return Bypass(network=network)
    host, colon, digits = rule.rpartition(":")
    port = int(digits) if colon and digits.isascii() and digits.isdigit() else None
    if port is None:
        host = rule
    if (network := _parse_network(host.strip("[]"))) is not None:
        return Bypass(network=network, port=port)
    if host == "*":
        return Bypass(name="*", port=port)
    return Bypass(name=host.removeprefix("*").strip("."), port=port)


def _parse_network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _in_network(host: str, network: IPv4Network | IPv6Network) -> bool:
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def is_this_machine(host: str) -> bool:
    """Return whether `host` is the machine that we run on."""
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
