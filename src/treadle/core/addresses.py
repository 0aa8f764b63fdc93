"""Addresses and names of hosts: what is public, and what a list of hosts covers.

Owns both answers. Invariant: whatever is not known to be global unicast is not public, however
an address wraps another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, ip_address, ip_network

__all__ = ["HOST_PATTERN", "covers_host", "is_public_address", "plain_host"]

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST_PATTERN = rf"^(?:\*\.)?(?:{_LABEL}\.)+{_LABEL}$"
"""One name, or all names below one: ``docs.example.org``, ``*.example.com``."""

_NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
            # Of what is global unicast in IPv6: special uses, and addresses that wrap others.
            *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16"),
        ),
    )
)
_GLOBAL_UNICAST = ip_network("2000::/3")


def is_public_address(address: str) -> bool:
    """Return whether `address` is one of the open network: no local, private or special one.

    >>> is_public_address("93.184.216.34"), is_public_address("64:ff9b::a00:1")
    (True, False)
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if not isinstance(ip, IPv4Address) and ip not in _GLOBAL_UNICAST:
        return False
    return ip.is_global and not any(ip in each for each in _NOT_PUBLIC)


def plain_host(host: str) -> str:
    """Return a host's name as it is compared: in lower case, without a final dot."""
    return host.lower().removesuffix(".")


def covers_host(patterns: Iterable[str], host: str) -> bool:
    """Return whether one of `patterns` is `host`, or a name above it that begins with ``*.``.

    >>> covers_host(["*.example.com"], "a.b.example.com"), covers_host(["*.b.org"], "b.org")
    (True, False)
    """
    name = plain_host(host)
    if name.startswith("*") or not re.match(HOST_PATTERN, name):
        return False
    return any(
        name.endswith(each[1:]) if each.startswith("*.") else name == each
        for each in map(plain_host, patterns)
    )
