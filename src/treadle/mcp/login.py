"""Login: a user lets us use an HTTP server, and takes that back.

Owns the order of a login. Invariant: one that fails or is cancelled stores nothing, and leaves
an earlier login as it was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import httpx2
from mcp.client.auth.exceptions import OAuthFlowError
from msgspec import Struct
from pydantic import ValidationError

from ..core.errors import ConfigError
from ..core.redact import add_secrets, one_line
from ..policy.auth.secrets import SecretStore
from .login_store import LoginStore
from .redirects import LoginRefused, listen_for_redirect
from .server_auth import ServerAuth, known_client
from .server_settings import McpServer, fill_variables

__all__ = ["LoginReport", "auth_for", "login", "logout"]

_PATIENCE = 600.0
"""Seconds that a user has to log in."""
_ANSWER = 30.0
_KNOCK = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "treadle", "version": "1"},
    },
}
_LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
_HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
}


class NoLogin(LoginRefused):
    """The server names nobody who could let us in."""


class LoginReport(Struct, frozen=True, kw_only=True):
    """What came of a login."""

    server: str
    needed: bool = True
    """False where the server lets everybody in."""
    issuer: str = ""
    scope: str = ""
    expires: int | None = None
    """When the access token ends, in milliseconds; None for never, or not said."""


async def login(
    server: McpServer,
    home: Path,
    show: Callable[[str], Awaitable[None]],
    *,
    scopes: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    secrets: SecretStore | None = None,
) -> LoginReport:
    """Log in to an HTTP server; `show` sends the user to an address. Raises `AuthError`.

    `scopes` are asked for besides those that the server names and those that an earlier login has.
    """
    url, store = _url_of(server, environ), secrets or SecretStore(home)
    own = server.settings.oauth
    before = await LoginStore(store, server.name, url).load()
    granted = tuple(before.scope.split()) if before else ()
    async with listen_for_redirect(show, own.callback_port or 0) as (listener, come_back):
        client, document = known_client(own.client_id, _secret_of(server, environ), come_back)
        auth = ServerAuth(
            server.name,
            url,
            store,
            client=client,
            client_document=document,
            scopes=(*own.scopes, *granted, *scopes),
            redirect=(listener.go, listener.come_back),
            redirect_uri=come_back,
        )
        status = await _knock(server.name, url, auth)
        if auth.store.login is None and status not in (401, 403):
            # It may ask only where a tool is called: what it publishes says whether anybody can.
            auth.unasked = True
            with suppress(NoLogin):
                status = await _knock(server.name, url, auth)
    made = auth.store.login
    if status in (401, 403):
        raise LoginRefused(
            f"the MCP server {server.name!r} answers {status} to the token that its authorization "
            "server gave; ask who runs it, or name another `--scope`"
        )
    if made is None:
        return LoginReport(server=server.name, needed=False)
    await auth.store.keep()
    return LoginReport(
        server=server.name, issuer=made.issuer, scope=made.scope, expires=made.expires
    )


async def logout(server: McpServer, home: Path, *, secrets: SecretStore | None = None) -> bool:
    """Forget the login to a server; return whether there was one. Raises `AuthError`."""
    name = server.name
    return await LoginStore(secrets or SecretStore(home), name, "").remove()


def auth_for(
    server: McpServer,
    home: Path,
    *,
    environ: Mapping[str, str] | None = None,
    secrets: SecretStore | None = None,
) -> ServerAuth:
    """Return what authorizes the requests of a transport to an HTTP server.

    Give it to the HTTP client as its `auth`. It refreshes tokens, and raises `LoginNeeded`
    where only a user can help. Leave it out where the settings have a header for it.
    """
    url, own = _url_of(server, environ), server.settings.oauth
    client, document = known_client(own.client_id, _secret_of(server, environ), "")
    return ServerAuth(
        server.name, url, secrets or SecretStore(home), client=client, client_document=document
    )


async def _knock(name: str, url: str, auth: ServerAuth) -> int:
    """Greet, and ask for the tools; return the status of the last answer."""
    try:
        async with (
            asyncio.timeout(_PATIENCE),
            httpx2.AsyncClient(auth=auth, headers=_HEADERS, timeout=_ANSWER) as http,
        ):
            async with http.stream("POST", url, json=_KNOCK) as answer:
                session = answer.headers.get("mcp-session-id")
                if answer.status_code in (401, 403):
                    return answer.status_code
            within = {"mcp-session-id": session} if session else {}
            async with http.stream("POST", url, json=_LIST, headers=within) as answer:
                return answer.status_code
    except TimeoutError:
        why = f"nobody logged in within {_PATIENCE / 60:.0f} minutes"
    except (OAuthFlowError, ValidationError) as error:
        why = one_line(str(error))
    except httpx2.HTTPError as error:
        why = f"it cannot be reached ({type(error).__name__})"
    unknown = auth.unasked and auth.context.oauth_metadata is None
    raise (NoLogin if unknown else LoginRefused)(f"no login to the MCP server {name!r}: {why}")


def _url_of(server: McpServer, environ: Mapping[str, str] | None) -> str:
    settings, missing = fill_variables(server.settings, os.environ if environ is None else environ)
    if settings.url is None:
        raise ConfigError(
            f"the MCP server {server.name!r} is a command, which nobody logs in to; give it what "
            "it needs with `env`"
        )
    if missing:
        raise ConfigError(f"{missing[0]} is not set, and the address of {server.name!r} has it")
    return settings.url


def _secret_of(server: McpServer, environ: Mapping[str, str] | None) -> str | None:
    variable = server.settings.oauth.client_secret_variable
    if variable is None:
        return None
    secret = (os.environ if environ is None else environ).get(variable, "")
    if not secret:
        raise ConfigError(f"{variable} is not set; set it to the secret of {server.name!r}")
    add_secrets(secret)
    return secret
