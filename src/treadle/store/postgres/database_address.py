"""Addresses of databases, as users write them.

Owns what is accepted and what of it is shown. Invariant: a password is in no message, no
`repr` and no log.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ...core.errors import ConfigError
from ...core.redact import add_secrets
from ...core.store_address import is_database
from .driver import conninfo_to_dict, psycopg

__all__ = ["Address", "parse_address"]

_CONNECT_SECONDS = 10
_QUIET_SECONDS = 10
"""A server that says nothing for about so long counts as lost."""

_DEFAULTS: dict[str, Any] = {
    "application_name": "treadle",
    "connect_timeout": _CONNECT_SECONDS,
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": _QUIET_SECONDS * 1000,
}


class Address(Struct, frozen=True):
    """Where a database is, and how to log in there."""

    url: str
    shown: str
    """The address without what nobody should read."""
    options: dict[str, Any]
    """What libpq is told besides the URL."""

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def __str__(self) -> str:
        return self.shown


def parse_address(url: str) -> Address:
    """Return the address that `url` says. Raises `ConfigError`."""
    if not is_database(url):
        raise ConfigError(
            "a store is the address of a PostgreSQL database; write it as "
            "'postgresql://USER@HOST:PORT/DATABASE'"
        )
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        # What libpq says of it may quote a part of the password.
        raise ConfigError(
            "the address of the store cannot be read; write it as "
            "'postgresql://USER@HOST:PORT/DATABASE', and each special character of a password "
            "as '%' and its two digits in hex"
        ) from error
    add_secrets(str(parts.get("password") or ""), str(parts.get("sslpassword") or ""))
    options = {name: value for name, value in _DEFAULTS.items() if name not in parts}
    return Address(url, _display_text(parts), options)


def _display_text(parts: dict[str, Any]) -> str:
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = parts.get("host") or parts.get("hostaddr") or ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"
