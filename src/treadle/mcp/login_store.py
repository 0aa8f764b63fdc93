"""The login store: where logins to MCP servers are kept.

Owns the profile ``mcp:NAME`` of a server, in the vault that has the keys of providers. Invariants:
a login is stored whole or not at all; and one that was made for another address is never used.
"""

from __future__ import annotations

import asyncio
import time

from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from ..policy.auth.credential import ProfileUnusable, ServerLogin, profile_id
from ..policy.auth.secrets import SecretStore

__all__ = ["PROVIDER", "LoginStore"]

PROVIDER = "mcp"
"""What stands before the name of a server in the name of its profile."""


class LoginStore:
    """The login of one server at one address; it is what the SDK keeps tokens in."""

    def __init__(
        self,
        secrets: SecretStore,
        name: str,
        url: str,
        client: OAuthClientInformationFull | None = None,
        *,
        fresh: bool = False,
    ) -> None:
        self.name = profile_id(PROVIDER, name)
        self.login: ServerLogin | None = None
        """What was loaded or stored last."""
        self.issuer = ""
        """Who gives the tokens that are stored next, and where."""
        self.authorize_url = ""
        self.token_url = ""
        self._secrets = secrets
        self._url = url
        self._client = client
        self._fresh = fresh
        """Whether a new login is made: nothing is read, and nothing stored before `keep`."""

    async def load(self) -> ServerLogin | None:
        """Return the login that is stored for this address. Raises `AuthError`."""
        self.login = await asyncio.to_thread(self._read)
        return self.login

    async def remove(self) -> bool:
        """Forget the login, whatever it was for; return whether there was one."""
        self.login = None
        return await asyncio.to_thread(self._secrets.remove, self.name)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, with the seconds that are left of them."""
        login = None if self._fresh else await self.load()
        if login is None:
            return None
        left = None if login.expires is None else (login.expires - _now()) // 1000
        return OAuthToken(
            access_token=login.access,
            refresh_token=login.refresh or None,
            expires_in=left,
            scope=login.scope or None,
        )

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store a new pair durably, with all that is needed to ask for the next one."""
        lasts = tokens.expires_in
        login = ServerLogin(
            provider=PROVIDER,
            label=self._url,
            access=tokens.access_token,
            refresh=tokens.refresh_token or "",
            expires=None if lasts is None else _now() + max(int(lasts), 0) * 1000,
            scope=tokens.scope or "",
            resource=self._url,
            issuer=self.issuer,
            authorize_url=self.authorize_url,
            token_url=self.token_url,
            client=self._client.model_dump_json(exclude_none=True) if self._client else "",
        )
        self.login = login
        if not self._fresh:
            await self.keep()

    async def keep(self) -> None:
        """Store the login durably."""
        assert self.login is not None, "there is one when tokens were set"
        await asyncio.to_thread(self._secrets.put, self.name, self.login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return as whom we are known to the authorization server."""
        if self._client is None and self.login is not None and self.login.client:
            self._client = OAuthClientInformationFull.model_validate_json(self.login.client)
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Remember as whom we were registered; it is stored with the first tokens."""
        self._client = client_info

    def _read(self) -> ServerLogin | None:
        if self.name not in {profile.id for profile in self._secrets.profiles()}:
            return None
        try:
            login = self._secrets.get(self.name)
        except ProfileUnusable as error:
            if error.permanent:
                return None
            raise
        right = isinstance(login, ServerLogin) and login.resource == self._url
        return login if right and isinstance(login, ServerLogin) else None


def _now() -> int:
    return time.time_ns() // 1_000_000
