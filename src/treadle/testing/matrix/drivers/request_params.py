"""Drivers of transport: the parameters of requests, as decided and as sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ....context.head import Choices
from ....core.errors import ConfigError
from ....core.loopback import LoopbackRequest
from ....core.typed import convert
from ....harness.events import TurnCompleted
from ....models.catalog import Catalog
from ....models.profile import ModelProfile
from ....policy.effort import turn_effort, wire_effort
from ....policy.target import Target
from ....policy.transport import accepts, asked_of, canonical, extra_params, resolve
from ..fixture import MatrixFixture, answers

__all__ = [
    "accepted_params",
    "defaults",
    "efforts",
    "resolve_params",
    "settings",
    "spelling",
    "turn",
]

Given: TypeAlias = Mapping[str, Any]


async def defaults(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the default parameters of models, under layers of settings."""
    del fixture
    layers: Sequence[Mapping[str, object]] = given.get("layers", ())
    found = [extra_params(_profile(name), _target(name), *layers) for name in given["models"]]
    return {"params": ["none" if each is None else each for each in found]}


async def spelling(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return parameters in their canonical spelling."""
    del fixture
    once = canonical(given["params"])
    return {"params": once, "stable": canonical(once) == once}


async def settings(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the parameters that settings give a model."""
    del fixture
    provider, _, model = given["model"].partition(":")
    return {"params": asked_of(given["params"], provider, model)}


async def accepted_params(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return which of some parameters each API accepts."""
    del fixture
    seen: dict[str, list[str]] = {}
    for place in given["to"]:
        provider, _, api = place.partition(" ")
        harness = "codex" if api == "app-server" else "treadle"
        target = Target(provider=provider, model="m", api=api, harness=harness)
        seen[place] = [name for name in given["params"] if accepts(target, name)]
    return {"taken": seen}


async def efforts(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the effort that each level means, for Codex and in our requests."""
    del fixture
    profile = _profile(given["model"])
    if "declared" in given:
        profile = profile.override(efforts=tuple(given["declared"]))
    levels: Sequence[str] = given["levels"]
    return {
        "codex": [turn_effort(profile, level) or "" for level in levels],
        "treadle": [wire_effort(profile, level) or "" for level in levels],
    }


async def resolve_params(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the parameters that follow from choices, or the error."""
    del fixture
    choices = convert(given.get("choices", {}), Choices)
    name, harness = given["model"], given.get("harness", "treadle")
    try:
        params = resolve(_profile(name), _target(name, harness), choices, given.get("params"))
    except ConfigError as error:
        return {"error": str(error)}
    fields = msgspec.structs.asdict(params)
    return {"error": "", **{name: _UNSET_PARAM if v is None else v for name, v in fields.items()}}


async def turn(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns with choices; return the parameters of their requests."""
    fixture.play(*answers(given))
    wishes: Sequence[Given] = given.get("wishes", ({},))
    statuses: list[str] = []
    async with fixture.open_thread(params=given.get("params")) as thread:
        for each in wishes:
            thread.log.setup.choices = convert(each, Choices)
            end = (await fixture.run_turn(thread, "Go on."))[-1]
            assert isinstance(end, TurnCompleted)
            statuses.append(end.status)
    return {
        "statuses": statuses,
        **{
            field: [_request_value(asked, field) for asked in fixture.requests] for field in _FIELDS
        },
    }


_UNSET_PARAM = "unsaid"
"""Stands for a parameter that a request does not hold."""
_FIELDS = {
    "effort": ("reasoning", "effort"),
    "summary": ("reasoning", "summary"),
    "verbosity": ("text", "verbosity"),
    "parallel": ("parallel_tool_calls",),
    "tier": ("service_tier",),
}


def _request_value(asked: LoopbackRequest, field: str) -> Any:
    """Return the value of a parameter in a request."""
    value: Any = asked.payload
    for name in _FIELDS[field]:
        value = (value or {}).get(name)
    return _UNSET_PARAM if value is None else value


def _profile(name: str) -> ModelProfile:
    return Catalog.load().profile(name)


def _target(name: str, harness: str = "treadle") -> Target:
    profile = _profile(name)
    return Target(provider=profile.provider, model=profile.slug, native=True, harness=harness)
