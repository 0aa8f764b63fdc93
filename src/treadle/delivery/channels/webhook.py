"""A webhook as a channel: replies are posted as signed JSON.

Owns the request and the reading of its answer. Invariants: every attempt at a delivery has
the same body and the same idempotency key; the secret leaves only inside a signature; and
nothing is sent to another host than the one that was configured, nor into a private
network unless that was meant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import UNSET, Struct, UnsetType

from ...core.errors import ConfigError
from ...core.redact import add_secrets
from ...core.wire import Json, json_bytes
from ...models.transport import (
    PrivateAddress,
    Redirected,
    Response,
    Timeouts,
    Transport,
    TransportError,
)
from ...models.transport.address import parse_url
from ..channel import Delivery, Receipt
from ..payload import ReplyKind
from .signature import signed_headers

__all__ = ["IDEMPOTENCY_HEADER", "LARGEST_ANSWER", "WebhookChannel"]

IDEMPOTENCY_HEADER = "idempotency-key"
LONGEST_WISH = 366 * 24 * 3600.0
"""Seconds that a receiver may ask us to wait."""
QUICK = Timeouts(connect=10.0, idle=20.0, total=30.0)

_MAY_PASS = frozenset({408, 409, 425, 429})
LARGEST_ANSWER = 64 * 1024
"""Bytes of an answer that are read; only its status counts."""


class _Body(Struct, frozen=True, kw_only=True):
    """What is posted."""

    key: str
    thread: str
    turn: int
    to: str
    kind: ReplyKind
    text: str
    media: tuple[str, ...]
    content: Json | UnsetType = UNSET
    is_error: bool
    reply_to: str
    as_voice: bool


@dataclass(slots=True)
class WebhookChannel:
    """Posts replies to one URL.

    The URL must be https and lead out of this network, unless `private` allows others. One
    attempt is made for each delivery; when to make the next is for `Deliveries` to say.
    """

    url: str = field(repr=False)
    secret: str = field(repr=False)
    transport: Transport = field(repr=False)
    private: bool = False
    timeouts: Timeouts = QUICK
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        try:
            origin = parse_url(self.url).origin
        except TransportError as error:
            raise ConfigError(f"the webhook cannot be used: {error}") from None
        if not self.secret:
            raise ConfigError(f"the webhook at {str(origin)!r} has no secret; give it one to sign")
        add_secrets(self.secret)
        if origin.scheme != "https" and not self.private:
            raise ConfigError(
                f"the webhook at {str(origin)!r} would send replies in the clear; "
                "use https, or set `private` for a host of your own"
            )

    @property
    def kind(self) -> str:
        """A webhook."""
        return "webhook"

    @property
    def deduplicates(self) -> bool:
        """The receiver knows a delivery again by its idempotency key."""
        return True

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        """Post one reply, once."""
        body = _body(delivery)
        headers = {
            "content-type": "application/json",
            IDEMPOTENCY_HEADER: delivery.key,
            **signed_headers(self.secret, int(self.clock()), body),
        }
        try:
            response = await self.transport.post(
                self.url, body, headers, timeouts=self.timeouts, public=not self.private
            )
            async with response:
                with suppress(TransportError):
                    await response.read(LARGEST_ANSWER)
                return _receipt(response, self.clock())
        except Redirected as error:
            # Where to is not repeated: the path of a webhook is often a secret itself.
            text = f"{error.origin} answered {error.status} and points elsewhere; correct the URL"
            return Receipt("refused", text)
        except PrivateAddress as error:
            text = f"{error.origin} leads into a private network; set `private` if that is meant"
            return Receipt("refused", text)
        except TransportError as error:
            return Receipt("failed" if error.retryable else "refused", str(error))


def _body(delivery: Delivery) -> bytes:
    reply = delivery.reply
    return json_bytes(
        _Body(
            key=delivery.key,
            thread=delivery.thread,
            turn=delivery.turn,
            to=delivery.to,
            kind=reply.kind,
            text=reply.text,
            media=reply.media,
            content=reply.content,
            is_error=reply.is_error,
            reply_to=reply.reply_to,
            as_voice=reply.as_voice,
        )
    )


def _receipt(response: Response, now: float) -> Receipt:
    status = response.status
    if 200 <= status < 300:
        return Receipt("delivered")
    # What the other side wrote is not repeated: it may hold what we sent.
    if status >= 500 or status in _MAY_PASS:
        wait = _retry_after(response.headers, now)
        return Receipt("failed", f"the webhook answered {status}", wait)
    return Receipt("refused", f"the webhook answered {status}; correct its URL or its receiver")


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that the other side asks us to wait, or until the date that it names."""
    wish = headers.get("retry-after", "").strip()
    if wish.isascii() and wish.isdigit():
        return min(float(wish), LONGEST_WISH)
    from email.utils import parsedate_to_datetime

    try:
        return min(max(parsedate_to_datetime(wish).timestamp() - now, 0.0), LONGEST_WISH)
    except (ValueError, TypeError, OverflowError):
        return None
