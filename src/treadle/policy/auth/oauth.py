"""OAuth: an expired oauth profile gets its next pair of tokens.

Owns the exchange with the token endpoint and the JSON in which people bring tokens.
Invariants: of all processes of a home one refreshes a profile at a time, and the others use
its result; a new pair is durable before anyone uses it, also when the caller is cancelled;
no error quotes a document or an answer, which may hold a token.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ...core.aio import finish_uncancelled
from ...core.redact import add_secrets
from ...core.typed import decode_json
from ...core.wire import UNREADABLE
from ...models.transport import Timeouts, Transport, TransportError
from .auth_state import Clock, now
from .credential import AuthError, Credential, OAuth, ProfileUnusable, Timestamp, Token
from .secrets import SecretStore, try_lock

__all__ = ["LARGEST_TOKEN_ANSWER", "Refresher", "check_endpoint", "parse_tokens"]

_EARLY = 60_000
"""A token that expires within this many milliseconds is refreshed before it is used."""
_LOCK_TIMEOUT = 90.0
_LOCK_PAUSE = 0.05
_TIMEOUTS = Timeouts(connect=10.0, idle=20.0, total=30.0)
LARGEST_TOKEN_ANSWER = 256 * 1024
"""Bytes of a token endpoint's answer."""
_USUAL_LIFETIME = 3600
_SHORTEST_LIFETIME, _LONGEST_LIFETIME = 60, 366 * 24 * 3600
_CODE = re.compile(r"[a-z_]{1,40}")


class _Answer(Struct):
    access_token: str = ""
    refresh_token: str = ""
    expires_in: float = _USUAL_LIFETIME
    error: str = ""


class _Document(Struct):
    """Tokens as ``auth.json`` or a token endpoint spells them."""

    access: str = ""
    access_token: str = ""
    refresh: str = ""
    refresh_token: str = ""
    expires: Timestamp = 0
    expires_in: float = 0.0
    email: str = ""
    account_id: str = ""
    accountId: str = ""  # noqa: N815 - as it is spelled in files
    token_url: str = ""
    tokenUrl: str = ""  # noqa: N815 - as it is spelled in files
    client_id: str = ""
    clientId: str = ""  # noqa: N815 - as it is spelled in files


@dataclass(slots=True)
class Refresher:
    """Returns credentials that are valid for the next request."""

    store: SecretStore
    transport: Callable[[], Transport] = field(repr=False)
    clock: Clock = now
    timeout: float = _LOCK_TIMEOUT
    """Seconds to wait for another process that refreshes the same profile."""

    async def fresh(self, name: str, *, rejected: str = "") -> Credential:
        """Return the credential of `name`; refresh it first if needed. Raises `ProfileUnusable`.

        `rejected` is an access token that the provider has refused; it counts as expired.
        """
        credential = await asyncio.to_thread(self.store.get, name)
        if self._is_valid(name, credential, rejected) or not isinstance(credential, OAuth):
            return credential
        return await finish_uncancelled(self._refresh(name, rejected))

    async def _refresh(self, name: str, rejected: str) -> Credential:
        async with self._lock(name):
            credential = await asyncio.to_thread(self.store.get, name)
            if self._is_valid(name, credential, rejected) or not isinstance(credential, OAuth):
                return credential
            pair = await self._exchange(name, credential)
            try:
                await asyncio.to_thread(self.store.put, name, pair)
            except (AuthError, OSError) as error:
                raise ProfileUnusable(
                    name, f"its new tokens cannot be stored: {error}", permanent=False
                ) from None
            return pair

    def _is_valid(self, name: str, credential: Credential, rejected: str) -> bool:
        if rejected and credential.bearer == rejected:
            return False
        match credential:
            case OAuth():
                return credential.expires > self.clock() + _EARLY
            case Token(expires=int() as end) if end <= self.clock():
                raise ProfileUnusable(name, "its token has expired; add it again", permanent=True)
        return True

    async def _exchange(self, name: str, old: OAuth) -> OAuth:
        check_endpoint(name, old.token_url)
        form = {"grant_type": "refresh_token", "refresh_token": old.refresh}
        if old.client_id:
            form["client_id"] = old.client_id
        status, body = await self._post(name, old.token_url, urlencode(form).encode())
        answer = _parse_answer(body)
        if not 200 <= status < 300:
            raise _refusal(name, status, answer)
        if not answer.access_token:
            raise ProfileUnusable(
                name, "its token endpoint answered without a token; try again", permanent=False
            )
        add_secrets(answer.access_token, answer.refresh_token)
        return replace(
            old,
            access=answer.access_token,
            refresh=answer.refresh_token or old.refresh,
            expires=self.clock() + _lifetime(answer.expires_in),
        )

    async def _post(self, name: str, url: str, body: bytes) -> tuple[int, bytes]:
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }
        transport = self.transport()
        try:
            async with await transport.post(url, body, headers, timeouts=_TIMEOUTS) as response:
                return response.status, await response.read(LARGEST_TOKEN_ANSWER)
        except TransportError as error:
            raise ProfileUnusable(
                name,
                f"its token endpoint cannot be reached ({type(error).__name__}); try again later",
                permanent=False,
            ) from None
        finally:
            await transport.close()

    @asynccontextmanager
    async def _lock(self, name: str) -> AsyncIterator[None]:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        path = self.store.home / "auth-locks" / f"{digest}.lock"
        until = asyncio.get_running_loop().time() + self.timeout
        while (descriptor := await asyncio.to_thread(try_lock, path)) is None:
            if asyncio.get_running_loop().time() > until:
                raise ProfileUnusable(
                    name, "another process has been refreshing it for too long", permanent=False
                )
            await asyncio.sleep(_LOCK_PAUSE)
        try:
            yield
        finally:
            os.close(descriptor)


def parse_tokens(provider: str, text: str, now: int) -> OAuth:
    """Return the credential in the JSON document `text`. Raises `AuthError`.

    It needs an access token, a refresh token, the end of the first (`expires` in
    milliseconds or `expires_in` in seconds) and the `token_url` that gives the next pair.
    """
    try:
        document = decode_json(text, _Document)
    except (*UNREADABLE, UnicodeEncodeError):
        raise AuthError(
            "that is not a JSON object with `access`, `refresh`, `expires` and `token_url`; "
            "`treadle auth add --help` shows one"
        ) from None
    # A document that does not say when its tokens end: they are refreshed before their first use.
    seconds = document.expires_in
    end = now + int(seconds * 1000) if 0 < seconds < 1e10 else now
    credential = OAuth(
        provider=provider,
        access=(document.access or document.access_token).strip(),
        refresh=(document.refresh or document.refresh_token).strip(),
        expires=document.expires or end,
        email=document.email,
        account_id=document.account_id or document.accountId,
        token_url=document.token_url or document.tokenUrl,
        client_id=document.client_id or document.clientId,
    )
    check_endpoint(provider, credential.token_url)
    return credential


def check_endpoint(name: str, url: str) -> None:
    """Raise `ProfileUnusable` unless tokens may be sent to `url`."""
    if not url:
        why = "its tokens have ended and no `token_url` says where the next are; add it again"
    elif not _is_private(url):
        why = "its `token_url` is not https; add it again with one that is"
    else:
        return
    raise ProfileUnusable(name, why, permanent=True)


def _is_private(url: str) -> bool:
    """Return whether nobody can read what is sent to `url` on its way."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    loopback = host in ("localhost", "127.0.0.1", "::1")
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and loopback))


def _parse_answer(body: bytes) -> _Answer:
    try:
        return decode_json(body, _Answer)
    except UNREADABLE:
        return _Answer()


def _refusal(name: str, status: int, answer: _Answer) -> ProfileUnusable:
    code = f" ({answer.error!r})" if _CODE.fullmatch(answer.error) else ""
    passing = status >= 500 or status in (408, 425, 429)
    remedy = "try again later" if passing else "log in again and add it anew"
    return ProfileUnusable(
        name, f"its token endpoint answered {status}{code}; {remedy}", permanent=not passing
    )


def _lifetime(seconds: float) -> int:
    """Return the lifetime of a pair in milliseconds; a senseless value counts as one hour."""
    if not _SHORTEST_LIFETIME <= seconds <= _LONGEST_LIFETIME:
        seconds = _USUAL_LIFETIME
    return int(seconds * 1000)
