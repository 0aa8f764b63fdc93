"""Figures: what a provider counted and what it allows, as the app-server tells it.

Owns the way from its numbers to ours. Invariant: a figure that nobody told is unknown,
never zero.
"""

from __future__ import annotations

import msgspec

from ...core.usage import (
    InputDetails,
    OutputDetails,
    RateLimitSnapshot,
    RateLimitWindow,
    TokenUsage,
    WireUsage,
)
from ...core.wire import UNREADABLE
from ..events import RateLimitsReported
from .protocol import values
from .protocol.notifications import RateLimitsNotification, RawResponseNotification

__all__ = ["reported_limits", "response_usage", "seconds_until_reset"]

_LONGEST_WAIT = 366 * 24 * 3600
_wire_usage = msgspec.json.Decoder(WireUsage)


def response_usage(event: RawResponseNotification) -> TokenUsage | None:
    """What the provider counted; what it did not say stays unknown."""
    told = event.usage_metadata
    if told is not None:
        try:
            return TokenUsage.from_wire(_wire_usage.decode(told.metadata))
        except UNREADABLE:
            pass
    counted = event.usage
    if counted is None:
        return None
    # A zero may stand for a figure that was never told.
    cached, written = counted.cached_input_tokens or None, counted.cache_write_input_tokens or None
    return TokenUsage.from_wire(
        WireUsage(
            input_tokens=counted.input_tokens,
            input_tokens_details=InputDetails(cached, written),
            output_tokens=counted.output_tokens,
            output_tokens_details=OutputDetails(counted.reasoning_output_tokens or None),
            total_tokens=counted.total_tokens,
        )
    )


def reported_limits(event: RateLimitsNotification) -> RateLimitsReported | None:
    """What the provider says about its limits; None where it says nothing."""
    told = event.rate_limits
    if told.primary is None and told.secondary is None:
        return None
    return RateLimitsReported(
        RateLimitSnapshot(
            limit_id=told.limit_id,
            limit_name=told.limit_name,
            primary=_window(told.primary),
            secondary=_window(told.secondary),
            plan_type=told.plan_type,
        )
    )


def seconds_until_reset(limits: RateLimitSnapshot, now: float) -> float | None:
    """Seconds until every allowance that is used up is there again; None if nobody said."""
    windows = [each for each in (limits.primary, limits.secondary) if each is not None]
    ends = [each.resets_at for each in windows if each.used_percent >= 100 and each.resets_at]
    # A provider that names the end of time has not said when.
    ends = [end for end in ends if end <= now + _LONGEST_WAIT]
    return max(0.0, max(ends) - now) if ends else None


def _window(window: values.LimitWindow | None) -> RateLimitWindow | None:
    if window is None:
        return None
    return RateLimitWindow(window.used_percent, window.window_duration_mins, window.resets_at)
