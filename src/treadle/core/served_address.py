"""Where a local HTTP server listens, and by which names it may be called.

Owns the listening socket and the two checks that every local server needs: a page of another
site can make a browser call this machine, under a name of its own. Invariant: a request that
names another host, or comes from a page of another origin, is refused before anything of it
is read.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence

from msgspec import Struct

from .errors import ConfigError

__all__ = ["LOOPBACK", "HttpRefusal", "ServedNames", "in_url", "listen"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The names of this machine that nobody else can reach."""


class HttpRefusal(Struct, frozen=True):
    """Why a request is not served."""

    status: int
    why: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


_WRONG_HOST = HttpRefusal(421, b"this server is not known under that name\n")
_WRONG_PAGE = HttpRefusal(403, b"pages of that origin may not call this server\n")


class ServedNames(Struct, frozen=True):
    """The names of a server, with ports, and the origins of pages that may call it."""

    hosts: frozenset[bytes]
    origins: frozenset[bytes]

    @classmethod
    def of(cls, hosts: Iterable[str], origins: Iterable[str]) -> ServedNames:
        """Return the names in the form in which they are compared."""
        return cls(
            frozenset(host.lower().encode() for host in hosts),
            frozenset(origin.lower().encode() for origin in origins),
        )

    @classmethod
    def on_loopback(
        cls, port: int, hosts: Sequence[str] = (), origins: Sequence[str] = ()
    ) -> ServedNames:
        """Return the names of this machine at a port, and those besides."""
        own = [f"{in_url(name)}:{port}" for name in LOOPBACK]
        return cls.of((*own, *hosts), (*(f"http://{name}" for name in own), *origins))

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> HttpRefusal | None:
        """Return why a request with these headers is refused; None for one that is let in."""
        given = list(headers)
        hosts = [value.lower() for name, value in given if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return _WRONG_HOST
        origins = [value.lower() for name, value in given if name == b"origin"]
        if any(origin not in self.origins for origin in origins):
            return _WRONG_PAGE
        return None


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises `ConfigError` where that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        where = f"{in_url(host)}:{port}"
        raise ConfigError(
            f"{where} cannot be listened on: {os.strerror(error.errno or 0)}; name another "
            "with `--port` or `--host`"
        ) from None
    # Connections inherit it: the second half of an answer must not wait for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def in_url(host: str) -> str:
    """Return a host as it stands in an address.

    >>> in_url("::1"), in_url("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host else host
