"""What providers say when they will not answer, as typed errors.

Owns the reading of error bodies of every kind of server, and which of them may pass.
Invariant: a request that is too large is always a `ContextOverflow`, however the
server puts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..core.patterns import regex
from ..core.stream import retry_delay
from ..core.wire import UNREADABLE
from .contract import AuthFailed, ContextOverflow, InvalidRequest, ModelError, RateLimited

__all__ = [
    "ProviderError",
    "error_for_status",
    "error_in_stream",
    "parse_error_body",
    "provider_error",
    "request_id",
]

_TOO_LARGE = regex(
    r"prompt is too long|context (?:length|window|limit|size)|maximum context"
    r"|exceeds? the (?:model'?s |available )?context|input is too long|too many (?:input )?tokens"
    r"|reduce the length of the (?:messages|prompt)",
    re.IGNORECASE,
)
_OVERFLOW = frozenset(
    (
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "request_too_large",
    )
)
_SPENT = frozenset(
    (
        "billing_error",
        "billing_hard_limit_reached",
        "insufficient_quota",
        "usage_not_included",
    )
)
_REFUSED_KEY = frozenset(("authentication_error", "invalid_api_key", "permission_error"))
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
_MAY_PASS = frozenset((408, 409, 425))
_REFUSALS = frozenset((400, 404, 422))
"""Where the words of a refusal are read for its reason."""
_LONGEST_QUOTE = 500
_LONGEST_CODE = 80
_LONGEST_WAIT = 366 * 24 * 3600.0
"""Seconds; whoever asks for more has not said when."""


class ProviderError(Struct, frozen=True):
    """What an error body says."""

    message: str = ""
    code: str = ""
    resets_in: float | None = None


def parse_error_body(body: bytes) -> ProviderError:
    """What an error body says, in any of the shapes servers use."""
    try:
        payload = msgspec.json.decode(body)
    except UNREADABLE:
        return ProviderError(_quote(body.decode(errors="replace")))
    if not isinstance(payload, dict):
        return ProviderError(_quote(body.decode(errors="replace")))
    error = payload.get("error", payload)
    if not isinstance(error, dict):
        return ProviderError(_quote(str(error)))
    message = error.get("message") or error.get("detail") or payload.get("detail") or ""
    resets = error.get("resets_in_seconds")
    return ProviderError(
        _quote(message if isinstance(message, str) else msgspec.json.encode(message).decode()),
        _code(error),
        _seconds(resets) if isinstance(resets, int | float) else None,
    )


def provider_error(message: str, code: str) -> ProviderError:
    """A complaint in these words, as far as they are repeated."""
    return ProviderError(_quote(message), code[:_LONGEST_CODE])


def error_for_status(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error that a response other than 2xx stands for."""
    said = parse_error_body(body)
    facts: dict[str, Any] = {
        "status": status,
        "code": said.code,
        "request_id": request_id(headers),
    }
    after = _retry_after(headers)
    if status == 413 or said.code in _OVERFLOW or (status in _REFUSALS and _overflows(said)):
        return ContextOverflow(_overflow_text(said), **facts)
    if status in (401, 402, 403) or said.code in _SPENT:
        return AuthFailed(_text(said, status, "check the key and the account"), **facts)
    if status == 429:
        return _rate_limited(said, after, facts)
    if status >= 500 or status in _MAY_PASS:
        lasting = said.code in _OVERLOADED
        text = _text(said, status, "try again later")
        return ModelError(text, retryable=not lasting, retry_after=after, **facts)
    remedy = "check the model's name and the base URL" if status == 404 else "correct the request"
    return InvalidRequest(_text(said, status, remedy), **facts)


def error_in_stream(said: ProviderError, request_id: str = "") -> ModelError:
    """The error that a failure inside a stream stands for."""
    facts: dict[str, Any] = {"code": said.code, "request_id": request_id}
    if said.code not in _RATE and _overflows(said):
        return ContextOverflow(_overflow_text(said), **facts)
    if said.code in _SPENT | _REFUSED_KEY:
        return AuthFailed(_text(said, None, "check the key and the account"), **facts)
    if said.code in _INVALID:
        return InvalidRequest(_text(said, None, "correct the request"), **facts)
    if said.code in _RATE:
        lasting = said.code == "usage_limit_reached"
        after = said.resets_in if lasting else _seconds(retry_delay(said.message))
        text = _text(said, None, "wait for the limit to reset")
        return RateLimited(text, retryable=not lasting, retry_after=after, **facts)
    lasting = said.code in _OVERLOADED
    return ModelError(_text(said, None, "try again"), retryable=not lasting, **facts)


def request_id(headers: Mapping[str, str]) -> str:
    """The name of the exchange in the provider's logs."""
    return headers.get("x-request-id") or headers.get("request-id") or ""


def _rate_limited(said: ProviderError, after: float | None, facts: dict[str, Any]) -> RateLimited:
    """Worth another try only if the server says when, and no account's limit is used up."""
    lasting = said.code == "usage_limit_reached"
    wait = said.resets_in if lasting else after
    text = _text(said, 429, "wait, or ask for less at once")
    return RateLimited(text, retryable=after is not None and not lasting, retry_after=wait, **facts)


def _overflows(said: ProviderError) -> bool:
    return said.code in _OVERFLOW or _TOO_LARGE.search(said.message) is not None


def _overflow_text(said: ProviderError) -> str:
    words = f": {said.message}" if said.message else ""
    return f"the request is larger than the model's window{words}; compact the thread"


def _text(said: ProviderError, status: int | None, remedy: str) -> str:
    code = f" ({said.code!r})" if said.code else ""
    what = f"the provider answered {status}{code}" if status else f"the provider failed{code}"
    words = said.message.rstrip(". ")
    return f"{what}: {words}; {remedy}" if words else f"{what}; {remedy}"


def _code(error: Mapping[str, object]) -> str:
    """The code, else the type; numbers repeat the status and say nothing new."""
    for name in ("code", "type"):
        value = error.get(name)
        if isinstance(value, str) and value not in ("", "error"):
            return value[:_LONGEST_CODE]
    return ""


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else line[:_LONGEST_QUOTE] + "…"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds a server asks us to wait; a date is read against the server's own clock."""
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


def _seconds(wish: float | None) -> float | None:
    """A wait that somebody asks for; None for one that nobody can mean."""
    if wish is None or not wish <= _LONGEST_WAIT:
        return None
    return max(float(wish), 0.0)
