"""A token endpoint, for rows about oauth profiles.

Invariant: every refresh token is good for one new pair, and only once.
"""

from __future__ import annotations

import asyncio
import base64
import json
from urllib.parse import parse_qs

from ...core.loopback import LoopbackListener
from ...policy.auth.credential import OAuth
from ..fake.http import Reply, read_request

__all__ = ["TokenEndpoint", "token_name"]

_SHAPE = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"none"}', b"{}")
)
"""What stands before the last part of a token: some clients look at the shape of one."""


def token_name(bearer: str) -> str:
    """Which token a bearer is, such as ``access-1``."""
    return bearer.rpartition(".")[2].removeprefix("planted-")


class TokenEndpoint(LoopbackListener):
    """Gives out pairs of tokens: those that end in ``planted-access-1`` and so on."""

    def __init__(self, status: int = 200) -> None:
        super().__init__()
        self.status = status
        """What it answers; refusals do not use a token up."""
        self.given = 0
        self.asked = 0

    def credential(self, expires: int = 0, provider: str = "openai") -> OAuth:
        """The first pair."""
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
        said = json.dumps(body).encode()
        await Reply(reader, writer).whole(status, {"connection": "close"}, said)

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
