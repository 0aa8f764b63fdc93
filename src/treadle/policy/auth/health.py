"""Health: what failures and successes make of a profile.

Owns every number of cooldowns. Pure: times are given, in milliseconds. Invariants: what
says nothing about a profile leaves it as it was; a limit on one model leaves the others
alone; and no answer of a server keeps a profile away for longer than a cap of ours.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = [
    "NEUTRAL",
    "Health",
    "Limit",
    "Obstacle",
    "Reason",
    "State",
    "failed",
    "obstacle",
    "succeeded",
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
"""Reasons that lie in the request, the model's name or the network, not in the profile."""

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

COOLDOWNS: Final = (30 * SECOND, 60 * SECOND, 300 * SECOND)
"""After the first, the second, and every further failure."""
WINDOW: Final = DAY
"""Failures further apart than this do not add up."""
RATE_BASE: Final = 30 * SECOND
RATE_MOST: Final = DAY
DISABLE_BASE: Final = 10 * MINUTE
DISABLE_MOST: Final = {"billing": DAY, "auth_permanent": HOUR}
BLOCK_MOST: Final = 31 * DAY
"""The longest reset of a usage limit that is believed."""

State: TypeAlias = Literal["cooldown", "blocked", "disabled"]
"""How a profile is kept away: for a while, until a limit resets, or until someone acts."""


class Limit(Struct, frozen=True, omit_defaults=True):
    """A rate limit on one model."""

    until: int
    count: int = 1


class Health(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one profile is doing."""

    last_used: int = 0
    cooldown_until: int = 0
    cooldown_reason: str = ""
    limits: dict[str, Limit] = field(default_factory=dict)
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


def failed(
    health: Health,
    reason: Reason,
    now: int,
    *,
    model: str = "",
    retry_after: float | None = None,
) -> Health:
    """`health` after a failure; `retry_after` is what the provider asks for, in seconds."""
    if reason in NEUTRAL:
        return health
    health = _counted(_forgiven(health, now), reason, now)
    asked = now + _milliseconds(retry_after)
    match reason:
        case "billing" | "auth_permanent":
            span = _doubled(DISABLE_BASE, health.failures[reason], DISABLE_MOST[reason])
            until = max(health.disabled_until, now + span)
            return replace(health, disabled_until=until, disabled_reason=reason)
        case "usage_limit":
            waits = now + _doubled(RATE_BASE, health.failures[reason], RATE_MOST)
            until = asked if asked > now else waits
            return replace(health, blocked_until=max(health.blocked_until, until))
        case "rate_limit":
            return _limited(health, model, now, asked)
        case _:
            span = COOLDOWNS[min(health.errors, len(COOLDOWNS)) - 1]
            until = max(now + span, min(asked, now + RATE_MOST))
            until = max(health.cooldown_until, until)
            return replace(health, cooldown_until=until, cooldown_reason=reason)


def succeeded(health: Health, now: int, *, model: str = "", began: int | None = None) -> Health:
    """`health` after an answer to a request that was sent at `began`.

    Whatever was noted after `began` is newer than the answer and stays; so do the limits
    on other models.
    """
    used = max(health.last_used, now)
    if began is not None and health.last_failure > began:
        return replace(health, last_used=used)
    others = {
        name: limit for name, limit in health.limits.items() if name != model and limit.until > now
    }
    others.pop("", None)
    return Health(last_used=used, limits=others, last_failure=health.last_failure)


def obstacle(health: Health, now: int, model: str = "") -> Obstacle | None:
    """What stands in the way of using a profile for `model` now; the last to go away."""
    limits = [health.limits[name] for name in {"", model} if name in health.limits]
    found = [
        Obstacle(state="disabled", reason=health.disabled_reason, until=health.disabled_until),
        Obstacle(state="blocked", reason="usage_limit", until=health.blocked_until),
        Obstacle(state="cooldown", reason=health.cooldown_reason, until=health.cooldown_until),
        *(Obstacle(state="cooldown", reason="rate_limit", until=each.until) for each in limits),
    ]
    active = [each for each in found if each.until > now]
    return max(active, key=lambda each: each.until, default=None)


def _forgiven(health: Health, now: int) -> Health:
    """`health` without what is too long ago to count.

    A cooldown that ran out starts its ladder anew. What disables a profile goes on doubling
    until a whole window has passed after it, for trying once when it ends proves nothing.
    """
    ends = (limit.until for limit in health.limits.values())
    held = max(health.last_failure, health.disabled_until, health.blocked_until, *ends)
    if held and now - held > WINDOW:
        return Health(last_used=health.last_used)
    if health.errors and health.cooldown_until <= now:
        return replace(health, errors=0, cooldown_until=0, cooldown_reason="")
    return health


def _counted(health: Health, reason: Reason, now: int) -> Health:
    laddered = reason not in ("billing", "auth_permanent", "usage_limit", "rate_limit")
    return replace(
        health,
        errors=health.errors + laddered,
        failures={**health.failures, reason: health.failures.get(reason, 0) + 1},
        last_failure=max(health.last_failure, now),
    )


def _limited(health: Health, model: str, now: int, asked: int) -> Health:
    active = {name: limit for name, limit in health.limits.items() if limit.until > now}
    before = active.get(model, Limit(0, 0))
    span = _doubled(RATE_BASE, before.count + 1, RATE_MOST)
    until = max(before.until, now + span, min(asked, now + RATE_MOST))
    return replace(health, limits={**active, model: Limit(until, before.count + 1)})


def _doubled(base: int, count: int, most: int) -> int:
    """`base`, doubled with every failure after the first, and never above `most`."""
    return int(min(base << min(count - 1, 32), most))


def _milliseconds(seconds: float | None) -> int:
    """Seconds as a server says them; nonsense counts as nothing."""
    if seconds is None or not 0 < seconds < float("inf"):
        return 0
    return int(min(seconds * SECOND, BLOCK_MOST))
