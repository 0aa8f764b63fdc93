"""Loopback servers that rows need besides models: a token endpoint and a webhook receiver.

Invariants: every refresh token is good for one new pair, once; the receiver records every
request and answers with the statuses it was given, and then with the last of them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from urllib.parse import parse_qs

from ...core.loopback import LoopbackListener
from ...delivery.channels.webhook import IDEMPOTENCY_HEADER, is_signed
from ...policy.auth.credential import OAuth, Token
from ..fake.http import HttpReply, read_request

__all__ = ["TokenEndpoint", "WebhookReceiver", "account_token", "token_name"]

_ANY_TIME = 10.0 * 365 * 24 * 3600
_SHAPE = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"none"}', b"{}")
)
"""What stands before the last part of a token: some clients look at the shape of one."""


def token_name(bearer: str) -> str:
    """Return which token a bearer is, such as ``access-1``."""
    return bearer.rpartition(".")[2].removeprefix("planted-")


def account_token(profile: str) -> Token:
    """Return the token of a subscription, for a profile; it never ends."""
    provider, _, name = profile.partition(":")
    token = f"{_SHAPE}.planted-{name}"
    return Token(provider=provider, token=token, account_id=f"planted-account-{name}")


class TokenEndpoint(LoopbackListener):
    """Gives out pairs of tokens: those that end in ``planted-access-1`` and so on."""

    def __init__(self, status: int = 200) -> None:
        super().__init__()
        self.status = status
        """What it answers; refusals do not use a token up."""
        self.given = 0
        self.asked = 0

    def credential(self, expires: int = 0, provider: str = "openai") -> OAuth:
        """Return the first pair."""
        return OAuth(
            provider=provider,
            access=f"{_SHAPE}.planted-access-0",
            refresh="planted-refresh-0",
            expires=expires,
            account_id="planted-account",
            token_url=f"http://127.0.0.1:{self.port}/oauth/token",
        )

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        request = await read_request(reader)
        if request is None:
            return
        self.asked += 1
        brought = parse_qs(request.body.decode()).get("refresh_token", [""])[0]
        status, body = self._answer(brought)
        answer = json.dumps(body).encode()
        await HttpReply(reader, writer).send_whole(status, {"connection": "close"}, answer)

    def _answer(self, brought: str) -> tuple[int, dict[str, str | int]]:
        if self.status != 200:
            return self.status, {"error": "invalid_grant", "was": brought}
        if brought != f"planted-refresh-{self.given}":
            return 400, {"error": "invalid_grant", "was": brought}
        self.given += 1
        return 200, {
            "access_token": f"{_SHAPE}.planted-access-{self.given}",
            "refresh_token": f"planted-refresh-{self.given}",
            "expires_in": 3600,
        }


class WebhookReceiver(LoopbackListener):
    """Takes what webhooks post."""

    def __init__(self, statuses: Sequence[int] = (200,)) -> None:
        super().__init__()
        self.statuses = list(statuses)
        self.headers: dict[str, str] = {}
        """What every answer says besides."""
        self.taken: dict[str, str] = {}
        """The text of each delivery that was accepted, by key."""

    @property
    def url(self) -> str:
        """Return the address to post to; its path is secret, like those of real webhooks."""
        return f"http://127.0.0.1:{self.port}/hook/path-secret"

    @property
    def keys(self) -> list[str]:
        """Return the idempotency keys that came, each once, oldest first."""
        return list(dict.fromkeys(each.headers[IDEMPOTENCY_HEADER] for each in self.requests))

    def all_signed(self, secret: str) -> bool:
        """Return whether every request was signed with `secret`, at any time."""
        return all(
            is_signed(secret, each.headers, each.body, now=time.time(), tolerance=_ANY_TIME)
            for each in self.requests
        )

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request."""
        request = await read_request(reader)
        if request is None:
            return
        self.requests.append(request)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if 200 <= status < 300:
            text = str(request.payload["text"])
            self.taken.setdefault(request.headers[IDEMPOTENCY_HEADER], text)
        await HttpReply(reader, writer).send_whole(
            status, {**self.headers, "connection": "close"}, b""
        )
