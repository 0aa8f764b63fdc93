"""The address of a provider, and what goes with every request there.

Owns how a query in an address and the configured one are joined, the headers whose values
are in environment variables, and the client that we say we are. Invariants: a query stands
behind the path, whatever is added to the path; the value of a variable leaves as a header
only, and is a secret that no text shows.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct

from ..core.redact import add_secrets
from .contract import AuthFailed

__all__ = [
    "ProviderAddress",
    "add_header_secrets",
    "has_credentials",
    "headers_from_variables",
    "provider_address",
    "user_agent",
]

_SECRET = "(?i)key|token|secret|auth|cookie"  # noqa: S105 - a pattern
"""Matches the names of headers that hold credentials."""


class ProviderAddress(Struct, frozen=True):
    """A base URL without its query, and the query of every request."""

    base_url: str
    query: dict[str, str] = {}

    @property
    def query_string(self) -> str:
        """The query as a URL has it; empty without one."""
        return urlencode(self.query)


def provider_address(url: str, query_params: Mapping[str, str] | None) -> ProviderAddress:
    """Return the parts of `url`; `query_params` stand over the query that it has."""
    base, _, query = url.partition("?")
    told = dict(parse_qsl(query, keep_blank_values=True))
    return ProviderAddress(base.rstrip("/"), {**told, **(query_params or {})})


def has_credentials(*headers: Mapping[str, str] | None) -> bool:
    """Return whether any of these headers is one that holds credentials."""
    return any(re.search(_SECRET, name) for each in headers for name in each or ())


def headers_from_variables(
    provider: str, variables: Mapping[str, str] | None, environ: Mapping[str, str], *, needed: bool
) -> dict[str, str]:
    """Return the headers whose values are in variables, by the names of both.

    Raises `AuthFailed` for a variable that is not set, if it is `needed`.
    """
    found: dict[str, str] = {}
    for name, variable in (variables or {}).items():
        value = environ.get(variable, "").strip()
        if value:
            found[name] = value
            add_secrets(value)
        elif needed:
            raise AuthFailed(
                f"the header {name!r} of the provider {provider!r} has no value; set {variable}",
                code="missing_key",
            )
    return found


def add_header_secrets(headers: Mapping[str, str] | None) -> None:
    """Register the values of headers that hold credentials as secrets."""
    values = (value for name, value in (headers or {}).items() if re.search(_SECRET, name))
    add_secrets(*values)


@cache
def user_agent() -> str:
    """Return who asks: our version, and what it runs on."""
    version = import_module("treadle").__version__
    python = ".".join(map(str, sys.version_info[:2]))
    return f"treadle/{version} ({sys.platform}; {os.uname().machine}; python {python})"
