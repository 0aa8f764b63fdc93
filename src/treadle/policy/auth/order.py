"""Order: which profiles are tried, and in which order.

Pure. Owns the order, pins and when another profile of the same provider is tried.
Invariants: a profile of another provider is never a candidate; every profile that may be
used is one; profiles that rest come last, the one whose rest ends first before the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from .cooldowns import NEUTRAL, Obstacle, ProfileHealth, Reason, obstacle
from .credential import Profile, Source

__all__ = [
    "Pin",
    "ProfileCandidate",
    "can_move_pin",
    "can_rotate",
    "candidates",
    "candidates_beside_login",
    "candidates_to_try",
    "is_valid_pin",
]

_RANKS = {"oauth": 0, "token": 1, "api_key": 2}
_ONCE = frozenset(("overloaded", "rate_limit"))
"""Failures that another account rarely avoids: one other profile, then another model."""


class Pin(Struct, frozen=True, kw_only=True):
    """The profile that a thread uses first."""

    thread: str
    provider: str
    profile: str
    source: Source = "auto"


class ProfileCandidate(Struct, frozen=True, kw_only=True):
    """A profile that may be tried."""

    profile: Profile
    source: Source = "auto"
    """``user`` if a person chose this profile for the thread."""
    pinned: bool = False
    obstacle: Obstacle | None = None

    @property
    def usable(self) -> bool:
        """Whether it can be used now."""
        return self.obstacle is None


def candidates(
    profiles: Sequence[Profile],
    *,
    health: Mapping[str, ProfileHealth],
    now: int,
    model: str = "",
    orders: Sequence[Sequence[str]] = (),
    pin: Pin | None = None,
) -> tuple[ProfileCandidate, ...]:
    """Return the profiles of one provider in the order in which they are tried.

    `orders` are lists of profile ids that a person set; the first one that names a profile
    decides, and profiles that it leaves out are not used. Without one, a key in the
    environment comes first, then oauth, tokens and keys; among equals the one that was not
    used for the longest time. A usable pinned profile comes before all others.
    """
    chosen = _listed_profiles(profiles, orders) or sorted(profiles, key=_usual_order(health, now))
    found = [_candidate(each, health, now, model, pin) for each in chosen]
    ready = sorted((each for each in found if each.usable), key=lambda each: not each.pinned)
    resting = sorted((each for each in found if not each.usable), key=_rests_until)
    return (*ready, *resting)


def candidates_to_try(found: Sequence[ProfileCandidate]) -> tuple[ProfileCandidate, ...]:
    """Return the candidates worth a request: the usable ones, or else the first that rests.

    A provider whose profiles all rest is asked once, for the user may have just paid the bill.
    """
    return tuple(each for each in found if each.usable) or tuple(found[:1])


def candidates_beside_login(found: Sequence[ProfileCandidate]) -> tuple[ProfileCandidate, ...]:
    """Return the candidates to try where a harness has a login of its own.

    None, unless a person chose a profile; then subscriptions replace the chosen one if it
    fails. A chosen key stays alone, so that the user sees its refusal.
    """
    chosen = [each for each in found if each.source == "user"]
    if not chosen or chosen[0].profile.kind == "api_key":
        return tuple(chosen)
    return candidates_to_try([each for each in found if each.profile.kind != "api_key"])


def can_rotate(reason: Reason, rotations: int) -> bool:
    """Return whether another profile of the provider is tried after `rotations` others.

    A wrong request fails with every profile. Where a provider is busy, one more profile is
    tried before another model; where an account is the cause, all profiles are.
    """
    if reason in NEUTRAL:
        return False
    return rotations < 1 if reason in _ONCE else True


def is_valid_pin(pin: Pin, provider: str, profiles: Sequence[Profile]) -> bool:
    """Return whether a pin is for `provider` and its profile still exists."""
    return pin.provider == provider and any(each.id == pin.profile for each in profiles)


def can_move_pin(pin: Pin | None, profile: str, pinned: Obstacle | None) -> bool:
    """Return whether a thread that was answered with `profile` is pinned to it from now on.

    A cooldown is short, and the pinned account's cache is warm after it. Only a pin that
    nobody chose moves, and only away from a profile that is blocked or disabled.
    """
    if pin is None:
        return True
    is_gone = pinned is not None and pinned.state != "cooldown"
    return pin.source == "auto" and pin.profile != profile and is_gone


def _listed_profiles(profiles: Sequence[Profile], orders: Sequence[Sequence[str]]) -> list[Profile]:
    known = {each.id: each for each in profiles}
    for order in orders:
        found = [known[name] for name in dict.fromkeys(order) if name in known]
        if found:
            return found
    return []


def _usual_order(health: Mapping[str, ProfileHealth], now: int) -> Callable[[Profile], Any]:
    def key(profile: Profile) -> tuple[bool, int, bool, int, str]:
        used = health.get(profile.id, ProfileHealth()).last_used
        stored = profile.place != "environment"
        return stored, _RANKS[profile.kind], profile.is_expired(now), used, profile.id

    return key


def _candidate(
    profile: Profile, health: Mapping[str, ProfileHealth], now: int, model: str, pin: Pin | None
) -> ProfileCandidate:
    pinned = pin is not None and pin.profile == profile.id
    return ProfileCandidate(
        profile=profile,
        source=pin.source if pin and pinned else "auto",
        pinned=pinned,
        obstacle=obstacle(health.get(profile.id, ProfileHealth()), now, model),
    )


def _rests_until(candidate: ProfileCandidate) -> int:
    assert candidate.obstacle is not None
    return candidate.obstacle.until
