"""Order: which profiles are tried, and in which order.

Pure. Owns the order, pins and when another profile of the same provider is tried.
Invariants: a profile of another provider is never a candidate; every profile that may
be used is one, those that should rest last, the soonest to be back first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from .health import NEUTRAL, Health, Obstacle, Reason, obstacle
from .profile import Profile, Source

__all__ = [
    "Candidate",
    "Pin",
    "Wishes",
    "attempts",
    "candidates",
    "lent",
    "may_rotate",
    "pin_holds",
    "pin_moves",
]

_RANKS = {"oauth": 0, "token": 1, "api_key": 2}
_ONCE = frozenset(("overloaded", "rate_limit"))
"""What another account rarely helps against: one rotation, then another model."""


class Pin(Struct, frozen=True, kw_only=True):
    """The profile that a thread keeps to."""

    thread: str
    provider: str
    profile: str
    source: Source = "auto"


class Candidate(Struct, frozen=True, kw_only=True):
    """A profile that may be tried."""

    profile: Profile
    source: Source = "auto"
    """``user`` when a person chose this profile for the thread."""
    pinned: bool = False
    obstacle: Obstacle | None = None

    @property
    def usable(self) -> bool:
        """Whether nothing speaks against it now."""
        return self.obstacle is None


class Wishes(Struct, frozen=True, kw_only=True):
    """What was said about the order of a provider's profiles, by id."""

    stored: tuple[str, ...] = ()
    """Set with `treadle auth order`."""
    configured: tuple[str, ...] = ()
    """Set in a configuration."""


def candidates(
    profiles: Sequence[Profile],
    *,
    health: Mapping[str, Health],
    now: int,
    model: str = "",
    wishes: Wishes | None = None,
    pin: Pin | None = None,
) -> tuple[Candidate, ...]:
    """The profiles of one provider in the order in which they are tried.

    An order that a person set is kept, and profiles that it leaves out are not used. Without
    one, a key in the environment comes first, then oauth, tokens and keys; among equals the
    one that has rested longest. A pin comes before all of that, while its profile is usable.
    """
    listed = _listed(profiles, wishes or Wishes())
    chosen = listed or sorted(profiles, key=_unasked(health, now))
    judged = [_judged(each, health, now, model, pin) for each in chosen]
    ready = sorted((each for each in judged if each.usable), key=lambda each: not each.pinned)
    resting = sorted((each for each in judged if not each.usable), key=_back_at)
    return (*ready, *resting)


def attempts(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those worth a request: the usable ones, or else the one that is back soonest.

    A provider whose profiles all rest is asked once rather than not at all, for whoever
    waits may have just paid the bill.
    """
    return tuple(each for each in found if each.usable) or tuple(found[:1])


def lent(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those worth a request where a harness has a login of its own: none, unless a person chose.

    Then subscriptions stand in for the chosen one. A key is no login, whoever chose it: it is
    left alone, so that its refusal is what is heard.
    """
    chosen = [each for each in found if each.source == "user"]
    if not chosen or chosen[0].profile.kind == "api_key":
        return tuple(chosen)
    return attempts([each for each in found if each.profile.kind != "api_key"])


def may_rotate(reason: Reason, rotations: int) -> bool:
    """Whether another profile of the provider is tried, after `rotations` of them already.

    What is wrong with a request is wrong with every profile. Where a provider is busy, one
    more profile is tried before another model; where an account is the trouble, all are.
    """
    if reason in NEUTRAL:
        return False
    return rotations < 1 if reason in _ONCE else True


def pin_holds(pin: Pin, provider: str, profiles: Sequence[Profile]) -> bool:
    """Whether a pin still means something: same provider, and its profile is there."""
    return pin.provider == provider and any(each.id == pin.profile for each in profiles)


def pin_moves(pin: Pin | None, profile: str, pinned: Obstacle | None) -> bool:
    """Whether a thread that was answered with `profile` keeps to it from now on.

    A cooldown passes, and the pinned account's cache is warm when it does. Only a pin that
    nobody chose moves, and only away from a profile that stays away.
    """
    if pin is None:
        return True
    gone = pinned is not None and pinned.state != "cooldown"
    return pin.source == "auto" and pin.profile != profile and gone


def _listed(profiles: Sequence[Profile], wishes: Wishes) -> list[Profile]:
    known = {each.id: each for each in profiles}
    for order in (wishes.stored, wishes.configured):
        found = [known[name] for name in dict.fromkeys(order) if name in known]
        if found:
            return found
    return []


def _unasked(health: Mapping[str, Health], now: int) -> Callable[[Profile], Any]:
    def key(profile: Profile) -> tuple[bool, int, bool, int, str]:
        used = health.get(profile.id, Health()).last_used
        stored = profile.place != "environment"
        return stored, _RANKS[profile.kind], profile.expired(now), used, profile.id

    return key


def _judged(
    profile: Profile, health: Mapping[str, Health], now: int, model: str, pin: Pin | None
) -> Candidate:
    pinned = pin is not None and pin.profile == profile.id
    return Candidate(
        profile=profile,
        source=pin.source if pin and pinned else "auto",
        pinned=pinned,
        obstacle=obstacle(health.get(profile.id, Health()), now, model),
    )


def _back_at(candidate: Candidate) -> int:
    assert candidate.obstacle is not None
    return candidate.obstacle.until
