"""Which proxy a request takes, if any.

Owns the reading of the usual variables. Invariant: what is on this machine is
never asked of a proxy, and a proxy's password never appears in a `repr`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ...core.errors import ConfigError
from .address import HttpOrigin

__all__ = ["Bypass", "HttpRoute", "Proxies", "Proxy"]


class Proxy(Struct, frozen=True):
    """An HTTP proxy, with what it wants in `Proxy-Authorization`."""

    origin: HttpOrigin
    credentials: str = ""

    def __repr__(self) -> str:
        return f"Proxy({str(self.origin)!r})"

    @property
    def header(self) -> bytes:
        """The header line that carries the credentials, if there are any."""
        return f"Proxy-Authorization: {self.credentials}\r\n".encode() if self.credentials else b""


class Bypass(Struct, frozen=True):
    """One rule of `NO_PROXY`: a name and all beneath it, or a network; on one port or any."""

    name: str = ""
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None

    def covers(self, origin: HttpOrigin) -> bool:
        """Whether requests to `origin` go directly."""
        if self.port is not None and self.port != origin.port:
            return False
        if self.name == "*":
            return True
        if self.network is not None:
            return _in_network(origin.host, self.network)
        host = origin.host.rstrip(".")
        return host == self.name or host.endswith(f".{self.name}")


class Proxies(Struct, frozen=True):
    """A proxy for each scheme, and the rules that lead past them."""

    http: Proxy | None = None
    https: Proxy | None = None
    bypasses: tuple[Bypass, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Proxies:
        """`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`; lower case wins."""
        # A web server hands a client's `Proxy:` header to CGI programs as HTTP_PROXY.
        in_cgi = "REQUEST_METHOD" in environment
        everything = _proxy(environment, "all_proxy", "ALL_PROXY")
        upper = ("HTTP_PROXY",) if not in_cgi else ()
        return cls(
            http=_proxy(environment, "http_proxy", *upper) or everything,
            https=_proxy(environment, "https_proxy", "HTTPS_PROXY") or everything,
            bypasses=_bypasses(environment.get("no_proxy") or environment.get("NO_PROXY") or ""),
        )

    def choose(self, origin: HttpOrigin) -> Proxy | None:
        """The proxy for requests to `origin`; None for a direct connection."""
        proxy = self.https if origin.scheme == "https" else self.http
        if proxy is None or _is_this_machine(origin.host):
            return None
        return None if any(rule.covers(origin) for rule in self.bypasses) else proxy


class HttpRoute(Struct, frozen=True):
    """An origin and the proxy on the way there; what makes connections interchangeable."""

    origin: HttpOrigin
    proxy: Proxy | None = None
    public: bool = False
    """Whether the origin must lie outside this machine and its networks."""

    @property
    def uses_tunnel(self) -> bool:
        """Whether the proxy only passes bytes on."""
        return self.proxy is not None and self.origin.scheme == "https"


def _proxy(environment: Mapping[str, str], *names: str) -> Proxy | None:
    name = next((name for name in names if environment.get(name)), None)
    if name is None:
        return None
    url = environment[name]
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "http" or not host:
        # The value may hold a password, so it is not shown.
        raise ConfigError(
            f"{name} names no HTTP proxy; set it to http://[user:password@]host[:port], "
            "or unset it (SOCKS and HTTPS proxies are not supported)"
        )
    return Proxy(HttpOrigin("http", host, port or 80), _basic(parts.username, parts.password))


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return f"Basic {b64encode(pair.encode()).decode('ascii')}"


def _bypasses(text: str) -> tuple[Bypass, ...]:
    return tuple(_bypass(rule.lower()) for rule in text.replace(",", " ").split())


def _bypass(rule: str) -> Bypass:
    if (network := _network(rule.strip("[]"))) is not None:
        return Bypass(network=network)
    host, colon, digits = rule.rpartition(":")
    port = int(digits) if colon and digits.isascii() and digits.isdigit() else None
    if port is None:
        host = rule
    if (network := _network(host.strip("[]"))) is not None:
        return Bypass(network=network, port=port)
    if host == "*":
        return Bypass(name="*", port=port)
    return Bypass(name=host.removeprefix("*").strip("."), port=port)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _in_network(host: str, network: IPv4Network | IPv6Network) -> bool:
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def _is_this_machine(host: str) -> bool:
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
