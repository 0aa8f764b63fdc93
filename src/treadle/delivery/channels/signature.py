"""Signatures of webhook requests, for both sides.

Owns the two headers. Invariant: what is signed is the time, a dot, and the body, so that
neither can be changed, nor an old request be played again later.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from ...core.patterns import regex

__all__ = ["SIGNATURE_HEADER", "TIMESTAMP_HEADER", "is_signed", "sign", "signed_headers"]

SIGNATURE_HEADER = "x-treadle-signature"
TIMESTAMP_HEADER = "x-treadle-timestamp"

_SCHEME = "sha256="
_STAMP = regex(r"[0-9]{1,15}")


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of `body` at `timestamp` (seconds since 1970)."""
    signed = b"%d.%b" % (timestamp, body)
    return _SCHEME + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def signed_headers(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that a signed request carries."""
    return {TIMESTAMP_HEADER: str(timestamp), SIGNATURE_HEADER: sign(secret, timestamp, body)}


def is_signed(
    secret: str, headers: Mapping[str, str], body: bytes, *, now: float, tolerance: float = 300.0
) -> bool:
    """Whether a request came from whoever has `secret`, and came just now.

    For receivers; header names are in lower case.
    """
    stamp = headers.get(TIMESTAMP_HEADER, "")
    if not _STAMP.fullmatch(stamp) or abs(now - int(stamp)) > tolerance:
        return False
    given = headers.get(SIGNATURE_HEADER, "").encode(errors="replace")
    return hmac.compare_digest(given, sign(secret, int(stamp), body).encode())
