"""What Codex does not do while its provider cannot answer.

Owns the waits for limits, and the look at a provider on this machine. Invariant: what Codex
asks again for by itself is asked for by nobody else.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from ...models.contract import RateLimited
from ...models.transport.address import is_this_machine
from ..contract import TurnRun
from .protocol.types import CodexTurnError

__all__ = ["is_unreached", "limit_wait", "nobody_listens"]

_TOO_MANY = 429
_NOT_CONNECTED = "Connection failed"
"""How Codex's details of an error begin if no connection was made."""


def limit_wait(run: TurnRun, error: CodexTurnError | None, waits: int) -> float | None:
    """Return the seconds to wait for a limit; None if that was no limit, or nobody waits.

    Codex never waits for one, and does not say when it ends.
    """
    if error is None or error.http_status != _TOO_MANY or not run.waits_for_limits:
        return None
    return run.backoff.wait(RateLimited(error.message, retryable=True), waits)


def is_unreached(error: CodexTurnError) -> bool:
    """Say whether Codex found no provider, and asks again."""
    return (error.additional_details or "").startswith(_NOT_CONNECTED)


async def nobody_listens(base_url: str) -> bool:
    """Say whether an address is on this machine and no server listens there."""
    url = urlsplit(base_url)
    if not url.hostname or not is_this_machine(url.hostname):
        return False
    try:
        _, writer = await asyncio.open_connection(
            url.hostname, url.port or (443 if url.scheme == "https" else 80)
        )
    except OSError:
        return True
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return False
