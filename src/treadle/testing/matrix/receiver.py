"""The other end of a webhook, for rows about delivery.

Invariant: it records every request and answers with the statuses it was given, the last
of them for ever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ...core.loopback import LoopbackListener
from ...delivery.channels.webhook import IDEMPOTENCY_HEADER, is_signed
from ..fake.http import Reply, read_request

__all__ = ["Receiver"]

_ANY_TIME = 10.0 * 365 * 24 * 3600


class Receiver(LoopbackListener):
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
        """Where to post; the path is as secret as those of real webhooks."""
        return f"http://127.0.0.1:{self.port}/hook/path-secret"

    @property
    def keys(self) -> list[str]:
        """The idempotency keys that came, each once, oldest first."""
        return list(dict.fromkeys(each.headers[IDEMPOTENCY_HEADER] for each in self.requests))

    def all_signed(self, secret: str) -> bool:
        """Whether every request was signed with `secret`, whatever its clock said."""
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
        await Reply(reader, writer).whole(status, {**self.headers, "connection": "close"}, b"")
