"""Server auth: how requests to an HTTP server are authorized.

Owns what the SDK's client of OAuth does not decide. Invariants: a turn never opens a browser and
registers nowhere: it says which command logs in; tokens and codes travel over https, or on
this machine; an authorization server without PKCE by S256 is refused; and of all processes of a
home one refreshes a login at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_scope_from_www_auth,
    union_scopes,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from ..core.errors import ConfigError
from ..policy.auth.credential import AuthError
from ..policy.auth.secrets import SecretStore, try_lock
from .login_store import LoginStore

__all__ = ["LoginNeeded", "Redirect", "ServerAuth", "known_client"]

Redirect = tuple[Callable[[str], Awaitable[None]], Callable[[], Awaitable[AuthorizationCodeResult]]]
"""Sends the user to an address, and waits until they come back from it."""

_LOCK_PAUSE = 0.05
_LOCK_PATIENCE = 30.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NO_AUTHORIZATION_SERVER = "its authorization server cannot be found"
_ANYWHERE = "http://127.0.0.1/callback"


class LoginNeeded(AuthError):
    """A server lets nobody in who has not logged in, or asks for more scopes."""

    def __init__(self, server: str, scopes: Iterable[str] = ()) -> None:
        self.server, self.scopes = server, tuple(scopes)
        more = "".join(f" --scope {scope}" for scope in self.scopes)
        why = "asks for more rights" if self.scopes else "asks for a login"
        super().__init__(f"the MCP server {server!r} {why}; run `treadle mcp login {server}{more}`")


class ServerAuth(OAuthClientProvider):
    """Authorizes the requests to one server, by the login that is stored for it.

    With a `redirect` it logs in where there is no login; without one it raises `LoginNeeded`.
    """

    def __init__(
        self,
        server: str,
        url: str,
        secrets: SecretStore,
        *,
        client: OAuthClientInformationFull | None = None,
        client_document: str | None = None,
        scopes: tuple[str, ...] = (),
        redirect: Redirect | None = None,
        redirect_uri: str = _ANYWHERE,
    ) -> None:
        _silence()
        self.server = server
        self.store = LoginStore(secrets, server, url, client, fresh=redirect is not None)
        self._interactive = redirect is not None
        self.unasked = False
        """Whether to log in although the server has not asked for it yet."""
        self._scopes = scopes
        self._lock_path = _lock_path(secrets.home, self.store.name)
        self._lock: int | None = None
        go, come_back = redirect or (None, None)
        metadata = OAuthClientMetadata(
            client_name="Treadle",
            redirect_uris=[AnyUrl(redirect_uri)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",  # noqa: S106 - the method of who has no secret
            application_type="native",
        )
        super().__init__(
            url,
            metadata,
            self.store,
            redirect_handler=go,
            callback_handler=come_back,
            client_metadata_url=client_document,
        )

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        refreshed = False
        while True:
            flow = super()._auth_flow(request)
            again = False
            try:
                outgoing = await anext(flow)
                while True:
                    if outgoing is not request:
                        self._check(outgoing)
                    if outgoing is request and self.unasked and self.store.login is None:
                        response = httpx2.Response(401, request=request)
                    else:
                        response = yield outgoing
                    if outgoing is request and not self._interactive:
                        again = not refreshed and self._can_refresh_after(response)
                        if again:
                            break
                        self._refuse_without_user(response)
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
                self._unlock()
            if again:
                # The server refuses a token whose time is not over: ask for the next at once.
                refreshed, self.context.token_expiry_time = True, 1.0

    def _can_refresh_after(self, response: httpx2.Response) -> bool:
        return response.status_code == 401 and self.context.can_refresh_token()

    def _refuse_without_user(self, response: httpx2.Response) -> None:
        """Raise `LoginNeeded` where only a user can help."""
        if response.status_code == 401:
            raise LoginNeeded(self.server)
        error = extract_field_from_www_auth(response, "error")
        if response.status_code == 403 and error == "insufficient_scope":
            asked = extract_scope_from_www_auth(response) or ""
            raise LoginNeeded(self.server, asked.split())

    def _check(self, outgoing: httpx2.Request) -> None:
        """Refuse to send a code, a token or a registration where others can read it."""
        url = outgoing.url
        if url.scheme != "https" and not (url.scheme == "http" and url.host in _LOOPBACK):
            raise OAuthFlowError(f"{url.scheme}://{url.host} is not https")
        known = self.context.oauth_metadata
        registers = outgoing.method == "POST" and url.path.endswith("/register")
        if registers and known is None:
            raise OAuthFlowError(_NO_AUTHORIZATION_SERVER)
        if registers and known is not None and known.registration_endpoint is None:
            raise OAuthFlowError(
                "the authorization server registers nobody by itself; register Treadle there, and "
                f"set mcp.servers.{self.server}.oauth.client_id"
            )

    async def _initialize(self) -> None:
        """Load the login, with what is left of its time and where its next tokens come from."""
        await super()._initialize()
        login, context = self.store.login, self.context
        if login is None:
            return
        if login.expires is not None:
            # Zero would mean that it never ends.
            context.token_expiry_time = max(login.expires / 1000, 1.0)
        self.store.issuer = login.issuer
        self.store.authorize_url, self.store.token_url = login.authorize_url, login.token_url
        if login.token_url and not self._interactive:
            with suppress(ValidationError):
                context.oauth_metadata = OAuthMetadata.model_validate(
                    {
                        "issuer": login.issuer,
                        "authorization_endpoint": login.authorize_url,
                        "token_endpoint": login.token_url,
                    }
                )
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                    {"resource": login.resource, "authorization_servers": [login.issuer]}
                )

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        """Send the user to the authorization server, if it keeps the rules."""
        known = self.context.oauth_metadata
        if known is None:
            raise OAuthFlowError(_NO_AUTHORIZATION_SERVER)
        if "S256" not in (known.code_challenge_methods_supported or ()):
            raise OAuthFlowError(
                "its authorization server does not say that it checks PKCE by S256, without which "
                "a login can be stolen"
            )
        if urlsplit(str(known.authorization_endpoint)).scheme not in ("https", "http"):
            raise OAuthFlowError("its page for logins is no web page")
        metadata = self.context.client_metadata
        metadata.scope = union_scopes(metadata.scope, " ".join(self._scopes) or None)
        self.store.issuer = str(known.issuer)
        self.store.authorize_url = str(known.authorization_endpoint)
        self.store.token_url = str(known.token_endpoint)
        return await super()._perform_authorization_code_grant()

    async def _refresh_token(self) -> httpx2.Request:
        """Ask for the next pair with the newest that any process has stored."""
        await self._take_lock()
        tokens = await self.store.get_tokens()
        if tokens is not None:
            self.context.current_tokens = tokens
        return await super()._refresh_token()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        try:
            return await super()._handle_refresh_response(response)
        finally:
            self._unlock()

    async def _take_lock(self) -> None:
        until = asyncio.get_running_loop().time() + _LOCK_PATIENCE
        while (lock := await asyncio.to_thread(try_lock, self._lock_path)) is None:
            if asyncio.get_running_loop().time() > until:
                raise ConfigError(
                    f"another process has been refreshing the login to {self.server!r} for too "
                    "long; try again when it is done"
                )
            await asyncio.sleep(_LOCK_PAUSE)
        self._lock = lock

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def known_client(
    client_id: str | None, secret: str | None, redirect_uri: str
) -> tuple[OAuthClientInformationFull | None, str | None]:
    """Return as whom the user has registered us, or the document that describes us.

    A client id that is an https address is such a document; the authorization server reads it.
    """
    if client_id is None:
        return None, None
    if client_id.startswith("https://"):
        return None, client_id
    method = "client_secret_basic" if secret else "none"
    client = OAuthClientInformationFull(
        client_id=client_id,
        client_secret=secret,
        redirect_uris=[AnyUrl(redirect_uri)] if redirect_uri else None,
        token_endpoint_auth_method=method,
    )
    return client, None


def _lock_path(home: Path, profile: str) -> Path:
    return home / "auth-locks" / f"{sha256(profile.encode()).hexdigest()[:16]}.lock"


def _silence() -> None:
    """Keep the SDK from logging what it was answered, which may hold a token."""
    logging.getLogger("mcp.client.auth.oauth2").setLevel(logging.CRITICAL + 1)
