"""Refreshing: an oauth profile whose access has ended gets its next pair of tokens.

Owns the exchange with the token endpoint. Invariants: of all processes of a home one
refreshes a profile at a time, and the others use what it got; a new pair is durable
before anyone uses it, also when its asker is cancelled; no error quotes the endpoint's
words, which may repeat a token.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...core.aio import finish_uncancelled
from ...core.patterns import regex
from ...core.redact import add_secrets
from ...core.wire import UNREADABLE
from . import disk
from .errors import AuthError, ProfileUnusable
from .profile import Credential, OAuth, Token
from .secrets import SecretStore
from .state import Clock, now

if TYPE_CHECKING:
    from ...models.transport import Transport

__all__ = ["LARGEST_ANSWER", "Refresher", "check_endpoint"]

_EARLY = 60_000
"""Tokens that end within a minute are not sent any more."""
_PATIENCE = 90.0
_PAUSE = 0.05
_CONNECT, _IDLE, _TOTAL = 10.0, 20.0, 30.0
LARGEST_ANSWER = 256 * 1024
"""Bytes of a token endpoint's answer."""
_USUAL_SPAN = 3600
_SHORTEST_SPAN, _LONGEST_SPAN = 60, 366 * 24 * 3600
_CODE = regex(r"[a-z_]{1,40}")


class _Answer(Struct):
    access_token: str = ""
    refresh_token: str = ""
    expires_in: float = _USUAL_SPAN
    error: str = ""


@dataclass(slots=True)
class Refresher:
    """Hands out credentials that are good for the next request."""

    store: SecretStore
    transport: Callable[[], Transport] = field(repr=False)
    clock: Clock = now
    patience: float = _PATIENCE
    """Seconds to wait for another process that refreshes the same profile."""

    async def fresh(self, name: str, *, rejected: str = "") -> Credential:
        """The credential of `name`, refreshed if it has to be. Raises `ProfileUnusable`.

        `rejected` is an access token that the provider has refused, whatever its end says.
        """
        credential = await asyncio.to_thread(self.store.get, name)
        if self._good(name, credential, rejected) or not isinstance(credential, OAuth):
            return credential
        return await finish_uncancelled(self._alone(name, rejected))

    async def _alone(self, name: str, rejected: str) -> Credential:
        async with self._locked(name):
            credential = await asyncio.to_thread(self.store.get, name)
            if self._good(name, credential, rejected) or not isinstance(credential, OAuth):
                return credential
            pair = await self._exchange(name, credential)
            try:
                await asyncio.to_thread(self.store.put, name, pair)
            except (AuthError, OSError) as error:
                raise ProfileUnusable(
                    name, f"its new tokens cannot be kept: {error}", permanent=False
                ) from None
            return pair

    def _good(self, name: str, credential: Credential, rejected: str) -> bool:
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
        asked = {"grant_type": "refresh_token", "refresh_token": old.refresh}
        if old.client_id:
            asked["client_id"] = old.client_id
        status, body = await self._post(name, old.token_url, urlencode(asked).encode())
        answer = _read(body)
        if not 200 <= status < 300:
            raise _refused(name, status, answer)
        if not answer.access_token:
            raise ProfileUnusable(
                name, "its token endpoint answered without a token; try again", permanent=False
            )
        add_secrets(answer.access_token, answer.refresh_token)
        return replace(
            old,
            access=answer.access_token,
            refresh=answer.refresh_token or old.refresh,
            expires=self.clock() + _span(answer.expires_in),
        )

    async def _post(self, name: str, url: str, body: bytes) -> tuple[int, bytes]:
        from ...models.transport import Timeouts, TransportError

        timeouts = Timeouts(connect=_CONNECT, idle=_IDLE, total=_TOTAL)
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }
        transport = self.transport()
        try:
            async with await transport.post(url, body, headers, timeouts=timeouts) as response:
                return response.status, await response.read(LARGEST_ANSWER)
        except TransportError as error:
            raise ProfileUnusable(
                name,
                f"its token endpoint cannot be reached ({type(error).__name__}); try again later",
                permanent=False,
            ) from None
        finally:
            await transport.close()

    @asynccontextmanager
    async def _locked(self, name: str) -> AsyncIterator[None]:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        path = self.store.home / "auth-locks" / f"{digest}.lock"
        until = asyncio.get_running_loop().time() + self.patience
        while (descriptor := await asyncio.to_thread(disk.try_lock, path)) is None:
            if asyncio.get_running_loop().time() > until:
                raise ProfileUnusable(
                    name, "another process has been refreshing it for too long", permanent=False
                )
            await asyncio.sleep(_PAUSE)
        try:
            yield
        finally:
            os.close(descriptor)


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
    """Whether nobody can listen in on what is sent to `url`."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    loopback = host in ("localhost", "127.0.0.1", "::1")
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and loopback))


def _read(body: bytes) -> _Answer:
    try:
        return msgspec.json.decode(body, type=_Answer)
    except UNREADABLE:
        return _Answer()


def _refused(name: str, status: int, answer: _Answer) -> ProfileUnusable:
    code = f" ({answer.error!r})" if _CODE.fullmatch(answer.error) else ""
    passing = status >= 500 or status in (408, 425, 429)
    remedy = "try again later" if passing else "log in again and add it anew"
    return ProfileUnusable(
        name, f"its token endpoint answered {status}{code}; {remedy}", permanent=not passing
    )


def _span(seconds: float) -> int:
    """How long a pair is good for, in milliseconds; nonsense counts as the usual."""
    if not _SHORTEST_SPAN <= seconds <= _LONGEST_SPAN:
        seconds = _USUAL_SPAN
    return int(seconds * 1000)
