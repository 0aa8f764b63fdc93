"""Reasons: why a turn of Codex's failed, in words for a person.

Owns what is added to Codex's own words. Invariant: what Codex said stands in what is told.
"""

from __future__ import annotations

from .protocol.values import TurnError

__all__ = ["reason_of"]

_UNREACHED = "httpConnectionFailed"
_REFUSED_KEY = (401, 403)


def reason_of(failure: TurnError | None, provider: str) -> str:
    """Why a turn failed that asked `provider`."""
    if failure is None:
        return "Codex ended the turn as failed and did not say why; run `weft doctor`"
    if failure.overflows:
        return f"the conversation does not fit the model's window: {failure.message}"
    if failure.http_status in _REFUSED_KEY:
        return f"the provider {provider!r} refused the key: {failure.message}; check the key"
    if failure.kind == _UNREACHED and failure.http_status is None:
        return (
            f"the provider {provider!r} cannot be reached: {failure.message}; "
            "check the network and the provider's address"
        )
    return failure.message
