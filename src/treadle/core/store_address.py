"""Addresses of stores, as users write them.

Owns which texts are one, how one is shown, and where this machine keeps what it makes from the
threads there. Invariant: nothing that is returned holds a password.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from .errors import ConfigError

__all__ = ["OWN_FILE", "check_address", "index_directory", "is_database", "shown_address"]

OWN_FILE = "sqlite"
"""What users write for the file in Treadle's home, where something else is configured."""

_SCHEMES = ("postgresql://", "postgres://")


def is_database(text: str) -> bool:
    """Return whether `text` is meant as the address of a PostgreSQL database."""
    return text.startswith(_SCHEMES)


def check_address(text: str) -> str | None:
    """Return the address of a database; None for the file in the home. Raises `ConfigError`."""
    if text == OWN_FILE:
        return None
    if not is_database(text):
        raise ConfigError(
            f"the store {shown_address(text)!r} is neither 'postgresql://USER@HOST:PORT/DATABASE' "
            f"nor {OWN_FILE!r}, the file in Treadle's home; write one of them"
        )
    return text


def shown_address(text: str) -> str:
    """Return an address without its password, and without options, which may hold one."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        # Whatever it is meant to be, it may hold a password before the last of these.
        return text.rpartition("@")[2]
    login, at, place = rest.rpartition("@")
    user = login.partition(":")[0]
    return f"{scheme}://{user}{at}{place.partition('?')[0]}"


def index_directory(home: Path, address: str) -> Path:
    """Return where this machine keeps the index of the threads at an address."""
    place = shown_address(address).partition("://")[2].rpartition("@")[2]
    name = hashlib.sha256(place.encode()).hexdigest()[:16]
    return home / "stores" / name
