"""Servers: a server's settings, checked and with the values of variables in them.

Owns what a complete server is. Invariants: a server is a command or an address, never both;
values of variables are filled in when it is started, so that no secret is in a digest, in a
file of ours or in anything that is printed.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ..config.mcp_settings import McpServerSettings
from ..core.errors import ConfigError
from ..core.redact import holds_secret, is_secret
from ..core.wire import json_bytes

__all__ = [
    "McpServer",
    "ProgramFile",
    "check_server",
    "check_server_name",
    "fill_variables",
    "shows_secret",
]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


_AUTHORIZING = frozenset(("authorization", "cookie", "proxy-authorization"))


class ProgramFile(Struct, frozen=True):
    """A file of a project that a server's command names, as it was trusted."""

    path: str
    digest: str


class McpServer(Struct, frozen=True, kw_only=True):
    """A server by its name; `origin` says where it was found."""

    name: str
    settings: McpServerSettings
    origin: str = "host"
    """``user``, ``project``, ``host``, or the file that names it."""
    programs: tuple[ProgramFile, ...] | None = None
    """What of the project it runs, looked at before each start; None where that is the user's."""

    @property
    def digest(self) -> str:
        """Return what the server is, not how it may be used: what it runs or where it is."""
        own = self.settings
        parts = (own.command, own.args, own.env, own.cwd, own.url, own.headers, own.env_headers)
        return "sha256:" + hashlib.sha256(json_bytes(parts)).hexdigest()

    @property
    def is_local(self) -> bool:
        """Return whether it is a process of ours."""
        return self.settings.command is not None

    @property
    def place(self) -> str:
        """Return what it runs, or its host: without arguments of a URL, which may be secrets."""
        if self.settings.url is None:
            return shlex.join((self.settings.command or "", *self.settings.args))
        parts = urlsplit(self.settings.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def shows_secret(name: str, text: str) -> bool:
    """Return whether a variable or a header has a secret in it, not the name of one."""
    if "${" in text:
        return False
    named = name.lower() in _AUTHORIZING or is_secret(name.replace("-", "_"), text)
    return named or holds_secret(text)


def check_server_name(name: str) -> None:
    """Raise `ConfigError` for a name that a tool's name could not begin with."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name an MCP server; use up to 64 letters, digits, '-' and '_'"
        )


def check_server(server: McpServer) -> None:
    """Raise `ConfigError` unless a server is one command or one address."""
    check_server_name(server.name)
    own, where = server.settings, f"the MCP server {server.name!r}"
    if (own.command is None) == (own.url is None):
        raise ConfigError(f"{where} needs either 'command' or 'url'; give it one of them")
    if own.url is None:
        if own.headers or own.env_headers or own.bearer_token_variable:
            raise ConfigError(f"{where} is a command, which gets no headers; use 'env'")
        return
    if not re.match(r"https?://[^/\s]", own.url) and "${" not in own.url:
        raise ConfigError(f"{where} has no http address: {own.url!r}; use https://…")
    if own.args or own.env or own.env_vars or own.cwd:
        raise ConfigError(f"{where} is an address, which gets no variables; use 'headers'")


def fill_variables(
    settings: McpServerSettings, environ: Mapping[str, str]
) -> tuple[McpServerSettings, tuple[str, ...]]:
    """Return the settings with values for ``${NAME}`` and ``${NAME:-default}``.

    Also returns the names of variables that are not set; they stay as they are written.
    """
    missing: dict[str, None] = {}

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        if environ.get(name):
            return environ[name]
        if default is not None:
            return default
        missing[name] = None
        return found[0]

    def fill(text: str) -> str:
        return _VARIABLE.sub(value, text)

    filled = msgspec.structs.replace(
        settings,
        command=None if settings.command is None else fill(settings.command),
        args=tuple(map(fill, settings.args)),
        env={name: fill(text) for name, text in settings.env.items()},
        cwd=None if settings.cwd is None else fill(settings.cwd),
        url=None if settings.url is None else fill(settings.url),
        headers={name: fill(text) for name, text in settings.headers.items()},
    )
    return filled, tuple(missing)
