"""Reasons: why a turn of Codex's failed, in words for a person.

Owns what is added to Codex's own words. Invariant: what Codex said stands in what is told.
"""

from __future__ import annotations

from ...core.redact import redact
from ...policy.failures import Failure, named_failure
from .protocol.values import CodexTurnError

__all__ = ["is_auth_error", "turn_failure"]

_UNREACHED = "httpConnectionFailed"
_REFUSED_KEY = (401, 403)
_ENDED = "auth refresh request failed"
"""What Codex says where tokens of ours have ended: it asks for others in its own way first."""


def is_auth_error(failure: CodexTurnError | None) -> bool:
    """Whether the provider took the request for that of nobody it knows."""
    if failure is None:
        return False
    return failure.http_status == _REFUSED_KEY[0] or failure.message.startswith(_ENDED)


def turn_failure(failure: CodexTurnError | None, provider: str) -> Failure:
    """Why a turn failed that asked `provider`, for the plan and for a person."""
    said = _said(failure, provider)
    if failure is None:
        return Failure(reason="unknown", message=said)
    if failure.is_overflow:
        return Failure(reason="context_overflow", message=said, code=failure.kind)
    if is_auth_error(failure):
        return Failure(reason="auth", message=redact(said), code=failure.kind)
    return named_failure(failure.kind, said, failure.http_status)


def _said(failure: CodexTurnError | None, provider: str) -> str:
    if failure is None:
        return "Codex ended the turn as failed and did not say why; run `treadle doctor`"
    if failure.is_overflow:
        return f"the conversation does not fit the model's window: {failure.message}"
    if failure.http_status in _REFUSED_KEY or is_auth_error(failure):
        return f"the provider {provider!r} refused the key: {failure.message}; check the key"
    if failure.kind == _UNREACHED and failure.http_status is None:
        return (
            f"the provider {provider!r} cannot be reached: {failure.message}; "
            "check the network and the provider's address"
        )
    return failure.message
