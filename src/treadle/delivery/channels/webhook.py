"""A webhook as a channel: replies are posted as signed JSON.

Owns the request, its signature (for both sides) and the reading of its answer. Invariants:
every attempt at a delivery has the same body and the same idempotency key; the secret
leaves only inside a signature, which covers the time and the body; and nothing is sent to
another host than the configured one, nor into a private network unless it is allowed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from msgspec import UNSET, Struct, UnsetType

from ...core.errors import ConfigError
from ...core.redact import add_secrets
from ...core.wire import Json, json_bytes
from ...models.transport import (
    ConnectRefused,
    PrivateAddress,
    Redirected,
    Response,
    Timeouts,
    Transport,
    TransportError,
)
from ...models.transport.address import parse_url
from ..channel import Delivery, Receipt, ReplyKind

__all__ = [
    "IDEMPOTENCY_HEADER",
    "LARGEST_ANSWER",
    "LONGEST_RETRY_AFTER",
    "SIGNATURE_HEADER",
    "TIMESTAMP_HEADER",
    "WebhookChannel",
    "is_signed",
    "sign",
    "signature_headers",
]

IDEMPOTENCY_HEADER = "idempotency-key"
SIGNATURE_HEADER = "x-treadle-signature"
TIMESTAMP_HEADER = "x-treadle-timestamp"
LONGEST_RETRY_AFTER = 366 * 24 * 3600.0
"""Seconds that a receiver may ask us to wait."""
TIMEOUTS = Timeouts(connect=10.0, idle=20.0, total=30.0)

LARGEST_ANSWER = 64 * 1024
"""Bytes of an answer that are read; only its status counts."""

_RETRYABLE = frozenset({408, 409, 425, 429})
_SCHEME = "sha256="
_TIMESTAMP = re.compile(r"[0-9]{1,15}")


class _Body(Struct, frozen=True, kw_only=True):
    """The JSON body of a request."""

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

    The URL must be https and outside this network, unless `private` allows others. Each
    call makes one attempt; `Deliveries` decides when to make the next.
    """

    url: str = field(repr=False)
    secret: str = field(repr=False)
    transport: Transport = field(repr=False)
    private: bool = False
    timeouts: Timeouts = TIMEOUTS
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        try:
            origin = parse_url(self.url).origin
        except TransportError as error:
            raise ConfigError(f"the webhook cannot be used: {error}") from None
        if not self.secret:
            raise ConfigError(f"the webhook at {str(origin)!r} has no secret; add one")
        add_secrets(self.secret)
        if origin.scheme != "https" and not self.private:
            raise ConfigError(
                f"the webhook at {str(origin)!r} would send replies without encryption; "
                "use https, or set `private` for a host of your own"
            )

    @property
    def kind(self) -> str:
        """Return ``webhook``."""
        return "webhook"

    @property
    def deduplicates(self) -> bool:
        """Return True: the receiver recognises a delivery by its idempotency key."""
        return True

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        """Post one reply, once."""
        body = _body(delivery)
        headers = {
            "content-type": "application/json",
            IDEMPOTENCY_HEADER: delivery.key,
            **signature_headers(self.secret, int(self.clock()), body),
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
            # The new address is not repeated: the path of a webhook is often a secret itself.
            text = f"{error.origin} answered {error.status} and points elsewhere; correct the URL"
            return Receipt("refused", text)
        except PrivateAddress as error:
            text = f"{error.origin} leads into a private network; set `private` if that is meant"
            return Receipt("refused", text)
        except ConnectRefused as error:
            # A receiver that is down comes back, also one on this machine: replies wait for it.
            return Receipt("failed", str(error))
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
    # The answer's text is not repeated: it may hold what we sent.
    if status >= 500 or status in _RETRYABLE:
        wait = _retry_after(response.headers, now)
        return Receipt("failed", f"the webhook answered {status}", wait)
    return Receipt("refused", f"the webhook answered {status}; correct its URL or its receiver")


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the receiver asks us to wait, or until the date it names."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_RETRY_AFTER)
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - now, 0.0), LONGEST_RETRY_AFTER)
    except (ValueError, TypeError, OverflowError):
        return None


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Return the signature of `body` at `timestamp` (seconds since 1970)."""
    message = b"%d.%b" % (timestamp, body)
    return _SCHEME + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def signature_headers(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed request."""
    return {TIMESTAMP_HEADER: str(timestamp), SIGNATURE_HEADER: sign(secret, timestamp, body)}


def is_signed(
    secret: str, headers: Mapping[str, str], body: bytes, *, now: float, tolerance: float = 300.0
) -> bool:
    """Return whether a request came from the owner of `secret`, and came just now.

    For receivers; header names are in lower case.
    """
    stamp = headers.get(TIMESTAMP_HEADER, "")
    if not _TIMESTAMP.fullmatch(stamp) or abs(now - int(stamp)) > tolerance:
        return False
    given = headers.get(SIGNATURE_HEADER, "").encode(errors="replace")
    return hmac.compare_digest(given, sign(secret, int(stamp), body).encode())
