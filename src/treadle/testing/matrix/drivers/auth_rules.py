"""Drivers of the rules of profiles: whose they are, in which order, and how long they rest.

Invariant: pure; times are in seconds from a fixed start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from ....policy.auth.accounts import forwarding, harness_login, provider_for_auth
from ....policy.auth.cooldowns import ProfileHealth, after_failure, after_success, obstacle
from ....policy.auth.credential import Profile, RouteRefused
from ....policy.auth.order import (
    Pin,
    ProfileCandidate,
    can_move_pin,
    can_rotate,
    candidates,
    candidates_to_try,
)

__all__ = ["alias", "forward", "move", "order", "rest", "rotate", "sign_in"]

Given: TypeAlias = Mapping[str, Any]

_START = 1_000_000_000_000


async def alias(given: Given, fixture: object) -> Given:
    """Return the provider whose accounts a name means."""
    del fixture
    return {"provider": provider_for_auth(given["name"])}


async def forward(given: Given, fixture: object) -> Given:
    """Return what a harness is told about profiles."""
    del fixture
    plan = forwarding(given["provider"], given["harness"], _candidates(given))
    return {
        name: "" if value is None else value for name, value in msgspec.structs.asdict(plan).items()
    }


async def sign_in(given: Given, fixture: object) -> Given:
    """Return how a harness signs in for a route; decoys exist and are not forwarded."""
    del fixture
    found = _candidates(given)
    plan = forwarding("openai", "codex", found)
    there = [each.profile for each in found] + [_profile(each) for each in given.get("decoys", ())]
    try:
        login = harness_login(given["route"], plan, there, own_home=given.get("own_home", True))
    except RouteRefused as error:
        return {"error": "RouteRefused", "message": str(error)}
    return {"how": login.how, "profile": login.profile}


async def rest(given: Given, fixture: object) -> Given:
    """Return how long a profile rests after each step, for one model."""
    del fixture
    health, rests, model = ProfileHealth(), list[float](), given.get("model", "")
    for step in given["steps"]:
        now = _START + int(step.get("at", 0) * 1000)
        health = _next_health(health, step, now)
        held = obstacle(health, now, model)
        rests.append((held.until - now) / 1000 if held else 0.0)
    at = _START + int(given.get("look", 0) * 1000)
    held = obstacle(health, at, model)
    return {
        "rests": rests,
        "state": held.state if held else "usable",
        "reason": held.reason if held else "",
    }


async def order(given: Given, fixture: object) -> Given:
    """Return in which order profiles are tried, and which of them at all."""
    del fixture
    used: Mapping[str, int] = given.get("used", {})
    health = {name: ProfileHealth(last_used=_START + at * 1000) for name, at in used.items()}
    for each in given.get("failures", ()):
        name = each["profile"]
        health[name] = _next_health(health.get(name, ProfileHealth()), each, _START)
    pin = given.get("pin")
    found = candidates(
        [_profile(each) for each in given["profiles"]],
        health=health,
        now=_START,
        model=given.get("model", ""),
        orders=given.get("orders", ()),
        pin=Pin(thread="t", provider="openai", **pin) if pin else None,
    )
    return {
        "order": [each.profile.id for each in found],
        "usable": [each.profile.id for each in found if each.usable],
        "tried": [each.profile.id for each in candidates_to_try(found)],
        "chosen": [each.profile.id for each in found if each.source == "user"],
    }


async def rotate(given: Given, fixture: object) -> Given:
    """Return whether another profile is tried, after none, one and two of them."""
    del fixture
    return {"tries": [can_rotate(given["reason"], done) for done in range(3)]}


async def move(given: Given, fixture: object) -> Given:
    """Return whether a pin moves to the profile that answered."""
    del fixture
    health = ProfileHealth()
    for each in given.get("failures", ()):
        health = _next_health(health, each, _START)
    pin = Pin(thread="t", provider="openai", profile="openai:a", source=given["source"])
    return {"moves": can_move_pin(pin, "openai:b", obstacle(health, _START))}


def _next_health(health: ProfileHealth, step: Given, now: int) -> ProfileHealth:
    model = step.get("model", "")
    if step["what"] == "answered":
        began = step.get("began")
        sent = None if began is None else _START + int(began * 1000)
        return after_success(health, now, model=model, began=sent)
    return after_failure(
        health, step["what"], now, model=model, retry_after=step.get("retry_after")
    )


def _candidates(given: Given) -> list[ProfileCandidate]:
    return [
        ProfileCandidate(profile=_profile(each), source=each.get("source", "auto"))
        for each in given.get("profiles", ())
    ]


def _profile(given: Given) -> Profile:
    end = given.get("ends")
    return Profile(
        id=given["id"],
        provider=given["id"].partition(":")[0],
        kind=given.get("kind", "oauth"),
        place=given.get("place", "file"),
        expires=None if end is None else _START + end * 1000,
    )
