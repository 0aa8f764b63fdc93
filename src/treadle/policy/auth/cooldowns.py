"""Cooldowns: how failures and successes change the health of a profile.

Owns every number of cooldowns. Pure: times are given, in milliseconds. Invariants: a
failure that says nothing about a profile leaves it unchanged; a limit on one model leaves
the other models usable; and no answer of a server blocks a profile longer than our own cap.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = [
    "NEUTRAL",
    "Obstacle",
    "ProfileHealth",
    "RateLimit",
    "Reason",
    "State",
    "after_failure",
    "after_success",
    "obstacle",
]

Reason: TypeAlias = Literal[
    "auth",
    "auth_permanent",
    "billing",
    "rate_limit",
    "usage_limit",
    "overloaded",
    "server",
    "unknown",
    "timeout",
    "format",
    "context_overflow",
    "model_not_found",
]
"""Why an attempt failed, as far as profiles are concerned."""

NEUTRAL: Final = frozenset(("format", "context_overflow", "model_not_found", "timeout"))
"""Reasons whose cause is the request, the model's name or the network, not the profile."""

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

COOLDOWNS: Final = (30 * SECOND, 60 * SECOND, 300 * SECOND)
"""After the first, the second, and every later failure."""
WINDOW: Final = DAY
"""Failures further apart than this do not add up."""
RATE_BASE: Final = 30 * SECOND
RATE_MOST: Final = DAY
DISABLE_BASE: Final = 10 * MINUTE
DISABLE_MOST: Final = {"billing": DAY, "auth_permanent": HOUR}
BLOCK_MOST: Final = 31 * DAY
"""The longest reset of a usage limit that is believed."""

State: TypeAlias = Literal["cooldown", "blocked", "disabled"]
"""Why a profile rests: for a while, until a limit resets, or until someone acts."""


class RateLimit(Struct, frozen=True, omit_defaults=True):
    """A rate limit on one model."""

    until: int
    count: int = 1


class ProfileHealth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The health of one profile."""

    last_used: int = 0
    cooldown_until: int = 0
    cooldown_reason: str = ""
    limits: dict[str, RateLimit] = field(default_factory=dict)
    """Rate limits by model; under ``""`` one that holds for every model."""
    blocked_until: int = 0
    """When a usage limit resets."""
    disabled_until: int = 0
    disabled_reason: str = ""
    errors: int = 0
    """Failures in a row that count towards the next cooldown."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failures by reason, since the last success."""
    last_failure: int = 0


class Obstacle(Struct, frozen=True, kw_only=True):
    """Why a profile should not be used now, and until when."""

    state: State
    reason: str
    until: int


def after_failure(
    health: ProfileHealth,
    reason: Reason,
    now: int,
    *,
    model: str = "",
    retry_after: float | None = None,
) -> ProfileHealth:
    """Return `health` after a failure; `retry_after` is the provider's wish, in seconds."""
    if reason in NEUTRAL:
        return health
    health = _with_failure(_without_old_failures(health, now), reason, now)
    retry_at = now + _milliseconds(retry_after)
    match reason:
        case "billing" | "auth_permanent":
            span = _backoff(DISABLE_BASE, health.failures[reason], DISABLE_MOST[reason])
            until = max(health.disabled_until, now + span)
            return replace(health, disabled_until=until, disabled_reason=reason)
        case "usage_limit":
            waits = now + _backoff(RATE_BASE, health.failures[reason], RATE_MOST)
            until = retry_at if retry_at > now else waits
            return replace(health, blocked_until=max(health.blocked_until, until))
        case "rate_limit":
            return _with_rate_limit(health, model, now, retry_at)
        case _:
            span = COOLDOWNS[min(health.errors, len(COOLDOWNS)) - 1]
            until = max(now + span, min(retry_at, now + RATE_MOST))
            until = max(health.cooldown_until, until)
            return replace(health, cooldown_until=until, cooldown_reason=reason)


def after_success(
    health: ProfileHealth, now: int, *, model: str = "", began: int | None = None
) -> ProfileHealth:
    """Return `health` after an answer to a request that was sent at `began`.

    A failure after `began` is newer than the answer and stays; so do the limits on other
    models.
    """
    used = max(health.last_used, now)
    if began is not None and health.last_failure > began:
        return replace(health, last_used=used)
    others = {
        name: limit for name, limit in health.limits.items() if name != model and limit.until > now
    }
    others.pop("", None)
    return ProfileHealth(last_used=used, limits=others, last_failure=health.last_failure)


def obstacle(health: ProfileHealth, now: int, model: str = "") -> Obstacle | None:
    """Return why a profile should not be used for `model` now; the obstacle that lasts longest."""
    limits = [health.limits[name] for name in {"", model} if name in health.limits]
    found = [
        Obstacle(state="disabled", reason=health.disabled_reason, until=health.disabled_until),
        Obstacle(state="blocked", reason="usage_limit", until=health.blocked_until),
        Obstacle(state="cooldown", reason=health.cooldown_reason, until=health.cooldown_until),
        *(Obstacle(state="cooldown", reason="rate_limit", until=each.until) for each in limits),
    ]
    active = [each for each in found if each.until > now]
    return max(active, key=lambda each: each.until, default=None)


def _without_old_failures(health: ProfileHealth, now: int) -> ProfileHealth:
    """Return `health` without the failures that are too old to count.

    After a cooldown has passed, the next one is short again. The time for which a profile is
    disabled goes on doubling until a whole window has passed after it, for one try at its end
    proves nothing.
    """
    ends = (limit.until for limit in health.limits.values())
    last = max(health.last_failure, health.disabled_until, health.blocked_until, *ends)
    if last and now - last > WINDOW:
        return ProfileHealth(last_used=health.last_used)
    if health.errors and health.cooldown_until <= now:
        return replace(health, errors=0, cooldown_until=0, cooldown_reason="")
    return health


def _with_failure(health: ProfileHealth, reason: Reason, now: int) -> ProfileHealth:
    has_cooldown = reason not in ("billing", "auth_permanent", "usage_limit", "rate_limit")
    return replace(
        health,
        errors=health.errors + has_cooldown,
        failures={**health.failures, reason: health.failures.get(reason, 0) + 1},
        last_failure=max(health.last_failure, now),
    )


def _with_rate_limit(health: ProfileHealth, model: str, now: int, retry_at: int) -> ProfileHealth:
    active = {name: limit for name, limit in health.limits.items() if limit.until > now}
    before = active.get(model, RateLimit(0, 0))
    span = _backoff(RATE_BASE, before.count + 1, RATE_MOST)
    until = max(before.until, now + span, min(retry_at, now + RATE_MOST))
    return replace(health, limits={**active, model: RateLimit(until, before.count + 1)})


def _backoff(base: int, count: int, most: int) -> int:
    """Return `base`, doubled with every failure after the first, and at most `most`."""
    return int(min(base << min(count - 1, 32), most))


def _milliseconds(seconds: float | None) -> int:
    """Return the seconds that a server names in milliseconds; 0 for a senseless value."""
    if seconds is None or not 0 < seconds < float("inf"):
        return 0
    return int(min(seconds * SECOND, BLOCK_MOST))
