"""Error answers of providers, as typed errors.

Owns the reading of error bodies from every kind of server, and which errors may pass.
Invariant: a request that is too large is always a `ContextOverflow`, whatever words the
server uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..core.stream import retry_delay
from ..core.wire import UNREADABLE
from .contract import (
    AuthFailed,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    RateLimited,
    StreamCut,
)

__all__ = [
    "ErrorBody",
    "error_for_status",
    "error_in_stream",
    "incomplete_answer",
    "make_error_body",
    "parse_error_body",
    "request_id",
]

_CUT_SHORT = {
    "max_output_tokens": "it reached the limit of output tokens (max_output_tokens); what came is "
    "kept, so ask for the rest, or raise the limit",
    "content_filter": "a filter of the provider's stopped it (content_filter)",
}
_TOO_LARGE = (
    r"(?i)prompt is too long|context (?:length|window|limit|size)|maximum context"
    r"|exceeds? the (?:model'?s |available )?context|input is too long|too many (?:input )?tokens"
    r"|reduce the length of the (?:messages|prompt)"
)
_OVERFLOW = frozenset(
    (
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "request_too_large",
    )
)
_QUOTA_USED_UP = frozenset(
    (
        "billing_error",
        "billing_hard_limit_reached",
        "insufficient_quota",
        "usage_not_included",
    )
)
_CANNOT_PAY = (
    r"(?i)credit balance|insufficient (?:credits?|balance|funds)|(?:out of|no|more) credits"
    r"|spending limit|payment required|billing (?:is|to be|has)"
)
_BILLING_STATUSES = frozenset((400, 403))
"""Statuses where the text may say that the account cannot pay."""
_BILLING = "billing_error"
_BAD_KEY = frozenset(("authentication_error", "invalid_api_key", "permission_error"))
_INVALID = frozenset(
    (
        "bio_policy",
        "cyber_policy",
        "invalid_prompt",
        "invalid_request_error",
        "misalignment_policy_violation",
        "model_not_found",
        "not_found_error",
    )
)
_RATE = frozenset(("rate_limit_error", "rate_limit_exceeded", "usage_limit_reached"))
_OVERLOADED = frozenset(("server_is_overloaded", "slow_down"))
_PASSING_STATUSES = frozenset((408, 409, 425))
_SEARCHED_STATUSES = frozenset((400, 404, 422))
"""Statuses where the text of the answer is searched for its cause."""
_LONGEST_QUOTE = 500
_LONGEST_CODE = 80
_LONGEST_WAIT = 366 * 24 * 3600.0
"""Seconds; a longer wait counts as none."""


class ErrorBody(Struct, frozen=True):
    """The content of an error body."""

    message: str = ""
    code: str = ""
    resets_in: float | None = None


def parse_error_body(body: bytes) -> ErrorBody:
    """Return the content of an error body, in any of the shapes that servers use."""
    try:
        payload = msgspec.json.decode(body)
    except UNREADABLE:
        return ErrorBody(_quote(body.decode(errors="replace")))
    if not isinstance(payload, dict):
        return ErrorBody(_quote(body.decode(errors="replace")))
    error = payload.get("error", payload)
    if not isinstance(error, dict):
        return ErrorBody(_quote(str(error)))
    message = error.get("message") or error.get("detail") or payload.get("detail") or ""
    resets = error.get("resets_in_seconds")
    return ErrorBody(
        _quote(message if isinstance(message, str) else msgspec.json.encode(message).decode()),
        _code(error),
        _seconds(resets) if isinstance(resets, int | float) else None,
    )


def make_error_body(message: str, code: str) -> ErrorBody:
    """Return an error with this text and code, both cut to what we repeat."""
    return ErrorBody(_quote(message), code[:_LONGEST_CODE])


def error_for_status(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error for a response other than 2xx."""
    error = parse_error_body(body)
    facts: dict[str, Any] = {
        "status": status,
        "code": error.code,
        "request_id": request_id(headers),
    }
    after = _retry_after(headers)
    is_too_large = status == 413 or error.code in _OVERFLOW
    if is_too_large or (status in _SEARCHED_STATUSES and _is_overflow(error)):
        return ContextOverflow(_overflow_text(error), **facts)
    if status == 402 or _is_billing(error, searched=status in _BILLING_STATUSES):
        return _billing_error(error, facts)
    if status in (401, 403):
        return AuthFailed(_text(error, status, "check the key and the account"), **facts)
    if status == 429:
        return _rate_limit_error(error, after, facts)
    if status >= 500 or status in _PASSING_STATUSES:
        lasting = error.code in _OVERLOADED
        text = _text(error, status, "try again later")
        return ModelError(text, retryable=not lasting, retry_after=after, **facts)
    remedy = "check the model's name and the base URL" if status == 404 else "correct the request"
    return InvalidRequest(_text(error, status, remedy), **facts)


def incomplete_answer(reason: str, *, retryable: bool = False) -> StreamCut:
    """Return the error for an answer that the provider ended before it was complete."""
    why = _CUT_SHORT.get(reason, f"its reason is {reason!r}")
    return StreamCut(f"the answer is incomplete: {why}", retryable=retryable, code=reason)


def error_in_stream(error: ErrorBody) -> ModelError:
    """Return the error for a failure inside a stream."""
    facts: dict[str, Any] = {"code": error.code}
    if error.code not in _RATE and _is_overflow(error):
        return ContextOverflow(_overflow_text(error), **facts)
    if _is_billing(error, searched=error.code not in _RATE):
        return _billing_error(error, facts)
    if error.code in _BAD_KEY:
        return AuthFailed(_text(error, None, "check the key and the account"), **facts)
    if error.code in _INVALID:
        return InvalidRequest(_text(error, None, "correct the request"), **facts)
    if error.code in _RATE:
        lasting = error.code == "usage_limit_reached"
        after = error.resets_in if lasting else _seconds(retry_delay(error.message))
        text = _text(error, None, "wait for the limit to reset")
        return RateLimited(text, retryable=not lasting, retry_after=after, **facts)
    lasting = error.code in _OVERLOADED
    return ModelError(_text(error, None, "try again"), retryable=not lasting, **facts)


def request_id(headers: Mapping[str, str]) -> str:
    """Return the name of the exchange in the provider's logs."""
    return headers.get("x-request-id") or headers.get("request-id") or ""


def _rate_limit_error(error: ErrorBody, after: float | None, facts: dict[str, Any]) -> RateLimited:
    """Return an error that may pass unless a quota is used up."""
    lasting = error.code == "usage_limit_reached"
    wait = error.resets_in if lasting else after
    text = _text(error, 429, "wait, or ask for less at once")
    return RateLimited(text, retryable=not lasting, retry_after=wait, **facts)


def _is_billing(error: ErrorBody, *, searched: bool) -> bool:
    if error.code in _QUOTA_USED_UP:
        return True
    return searched and re.search(_CANNOT_PAY, error.message) is not None


def _billing_error(error: ErrorBody, facts: dict[str, Any]) -> AuthFailed:
    words = f": {error.message.rstrip('. ')}" if error.message else ""
    code = error.code if error.code in _QUOTA_USED_UP else _BILLING
    return AuthFailed(
        f"the account cannot pay for the request{words}; add credit or raise its limit at the "
        "provider, or use another account (`treadle auth add`)",
        **{**facts, "code": code},
    )


def _is_overflow(error: ErrorBody) -> bool:
    return error.code in _OVERFLOW or re.search(_TOO_LARGE, error.message) is not None


def _overflow_text(error: ErrorBody) -> str:
    words = f": {error.message}" if error.message else ""
    return f"the request is larger than the model's window{words}; compact the thread"


def _text(error: ErrorBody, status: int | None, remedy: str) -> str:
    code = f" ({error.code!r})" if error.code else ""
    what = f"the provider answered {status}{code}" if status else f"the provider failed{code}"
    words = error.message.rstrip(". ")
    return f"{what}: {words}; {remedy}" if words else f"{what}; {remedy}"


def _code(error: Mapping[str, object]) -> str:
    """Return the code, else the type; numbers only repeat the status."""
    for name in ("code", "type"):
        value = error.get(name)
        if isinstance(value, str) and value not in ("", "error"):
            return value[:_LONGEST_CODE]
    return ""


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else line[:_LONGEST_QUOTE] + "…"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks us to wait; dates count from the server's clock."""
    if "retry-after" not in headers and "retry-after-ms" not in headers:
        return None
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return _seconds(float(headers[name]) / scale)
        except (KeyError, ValueError):
            continue
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(headers["retry-after"])
        return _seconds((until - parsedate_to_datetime(headers["date"])).total_seconds())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def _seconds(value: float | None) -> float | None:
    """Return a wait that a server asks for; None for one that is too long to be meant."""
    if value is None or not value <= _LONGEST_WAIT:
        return None
    return max(float(value), 0.0)
