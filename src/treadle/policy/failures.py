"""Failures: why an attempt came to nothing, in the one vocabulary that policy knows.

Owns the way from a model's errors, and from those that Codex names, to a reason.
Invariant: it is total: whatever went wrong has a reason, and finding it raises nothing.
"""

from __future__ import annotations

from msgspec import Struct

from ..core.redact import redact
from ..models.contract import (
    AuthFailed,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    RateLimited,
    StreamCut,
)
from .auth.cooldowns import Reason
from .auth.credential import AuthError

__all__ = ["UNUSABLE", "Failure", "failure_of", "named_failure"]

UNUSABLE = "profile_unusable"
"""The code of a failure that whoever keeps profiles has noted already."""

_BILLING = frozenset(
    ("billing_error", "billing_hard_limit_reached", "insufficient_quota", "usage_not_included")
)
_PERMANENT = frozenset(("account_deactivated", "invalid_api_key", "missing_key"))
_OVERLOADED = frozenset(("server_is_overloaded", "slow_down", "overloaded_error"))
_REFUSALS = frozenset(("bio_policy", "cyber_policy", "misalignment_policy_violation"))
_NO_MODEL = frozenset(("model_not_found", "not_found_error"))

_STATUSES: dict[int, Reason] = {
    400: "format",
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_not_found",
    408: "timeout",
}
_REFUSAL = '"error"'
_NAMED: dict[str, Reason] = {
    "badRequest": "format",
    "contextWindowExceeded": "context_overflow",
    "httpConnectionFailed": "timeout",
    "internalServerError": "server",
    "responseStreamConnectionFailed": "timeout",
    "responseStreamDisconnected": "server",
    "responseTooManyFailedAttempts": "rate_limit",
    "serverOverloaded": "overloaded",
    "unauthorized": "auth",
    "usageLimitExceeded": "usage_limit",
}
"""Codex's names for what goes wrong."""


class Failure(Struct, frozen=True, kw_only=True):
    """Why an attempt failed."""

    reason: Reason
    message: str
    code: str = ""
    retry_after: float | None = None
    """Seconds until it may be otherwise, where somebody said."""


def failure_of(error: BaseException) -> Failure:
    """The failure that an error stands for."""
    if isinstance(error, AuthError):
        return Failure(reason="auth", message=redact(str(error)), code=UNUSABLE)
    if not isinstance(error, ModelError):
        return Failure(reason="unknown", message=redact(str(error)) or type(error).__name__)
    return Failure(
        reason=_reason(error),
        message=redact(str(error)),
        code=error.code,
        retry_after=error.retry_after,
    )


def named_failure(name: str, message: str, status: int | None = None) -> Failure:
    """The failure that Codex calls `name`; with an HTTP `status`, that says more."""
    reason = _NAMED.get(name, "unknown")
    if status is not None:
        reason = _of_status(status, reason)
    elif reason == "unknown" and _REFUSAL in message:
        # Of a request that was refused Codex passes on the body, and no status.
        reason = "format"
    return Failure(reason=reason, message=redact(message), code=name)


def _of_status(status: int, otherwise: Reason) -> Reason:
    """What a status says; where it says little, Codex's name for it stays."""
    if status == 429:
        return otherwise if otherwise == "usage_limit" else "rate_limit"
    if status in (503, 529):
        return "overloaded"
    return _STATUSES.get(status, "server" if status >= 500 else otherwise)


def _reason(error: ModelError) -> Reason:
    match error:
        case ContextOverflow():
            return "context_overflow"
        case AuthFailed():
            return _of_account(error)
        case RateLimited():
            return "usage_limit" if error.code == "usage_limit_reached" else "rate_limit"
        case InvalidRequest():
            return "model_not_found" if error.code in _NO_MODEL else "format"
        case StreamCut():
            return "timeout" if error.status is None else "server"
    if error.code in _OVERLOADED or error.status in (503, 529):
        return "overloaded"
    if error.status is None:
        return "timeout" if error.retryable else "unknown"
    return "timeout" if error.status == 408 else "server"


def _of_account(error: AuthFailed) -> Reason:
    if error.code in _BILLING or error.status == 402:
        return "billing"
    return "auth_permanent" if error.code in _PERMANENT else "auth"
