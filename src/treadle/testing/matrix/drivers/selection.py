"""Drivers of harness selection: who runs a turn, and why; and real turns on the choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....core.errors import ConfigError, HarnessConflict, MissingHarness, UnsupportedHarness
from ....harness.contract import Outcome, Traits, TurnRun
from ....harness.events import TurnCompleted, TurnStarted
from ....harness.offers import Registration, Route, Support
from ....harness.registry import HarnessRegistry, canonical
from ....harness.select import HarnessRules, Preference, Selection, select
from ..fixture import MatrixFixture, answers

__all__ = ["choose", "name", "register", "turn"]

_MODEL = {"model": "openai:gpt-5.5", "provider": "openai"}


class _UnusedHarness:
    """A harness that is only asked whether it supports a route."""

    name = "stand"
    capabilities: frozenset[Any] = frozenset()
    traits = Traits()

    async def run(self, run: TurnRun) -> Outcome:
        raise AssertionError(f"{run.log.id} was to be run by a stand-in")


async def choose(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Choose a harness for a route; who was asked about it, too."""
    del fixture
    asked: list[str] = []
    registry = HarnessRegistry()
    for each in given.get("harnesses", ()):
        registry.register(_registration(each, asked))
    route = Route(**(_MODEL | given.get("route", {})))
    try:
        chosen = select(_preference(given, route), registry, route)
    except (MissingHarness, UnsupportedHarness) as error:
        return {"error": type(error).__name__, "message": str(error), "consulted": asked}
    return {**_selection_data(chosen), "consulted": asked}


async def name(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Return what spellings mean."""
    del fixture
    return {spelling: canonical(spelling) for spelling in given["spellings"]}


async def register(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Register harnesses, one after the other; return the results."""
    del fixture
    registry, results = HarnessRegistry(), []
    for each in given["offers"]:
        offered = Registration(
            id=each["id"],
            label="",
            factory=lambda _: _UnusedHarness(),
            owner=each.get("owner", "host"),
        )
        try:
            registry.register(offered, refresh=each.get("refresh", False))
        except (HarnessConflict, ConfigError) as error:
            results.append(type(error).__name__)
        else:
            results.append("taken")
    return {
        "heard": results,
        "known": [each.id for each in registry.harnesses()],
        "conflicts": len(registry.conflicts()),
    }


async def turn(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Run a turn on the fixture's harness, given as an object or by its name."""
    assert fixture is not None
    fixture.play(*answers(given))
    options: dict[str, Any] = {}
    if "opened_with" in given:
        rules = HarnessRules(**given.get("rules", {}))
        registry = _registry_with(fixture)
        options = {"harness": given["opened_with"], "harnesses": registry, "harness_rules": rules}
    async with fixture.open_thread(**options) as thread:
        for harness in given.get("then", ()):
            thread.use(harness=harness)
        events = await fixture.run_turn(thread, "Go on.")
    begun = next(event for event in events if isinstance(event, TurnStarted))
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    return {
        "own": begun.harness == fixture.harness.name,
        "reason": begun.harness_reason,
        "status": end.status,
        "text": end.text,
        "requests": len(fixture.requests),
    }


def _registry_with(fixture: MatrixFixture) -> HarnessRegistry:
    registry = HarnessRegistry()
    registry.register(Registration(id="mine", label="Mine", factory=lambda _: fixture.harness))
    registry.register(Registration(id="other", label="", factory=lambda _: _UnusedHarness()))
    return registry


def _registration(each: Mapping[str, Any], asked: list[str]) -> Registration:
    support = Support(
        supported=each.get("supported", True),
        priority=each.get("priority", 0),
        reason=each.get("reason", ""),
        fallback=each.get("fallback", False),
    )

    def supports(route: Route) -> Support:
        asked.append(f"{each['id']} about {route.requested}")
        if "raises" in each:
            raise OSError(each["raises"])
        return support

    providers = each.get("providers", ())
    return Registration(
        id=each["id"],
        label=each["id"],
        factory=lambda _: _UnusedHarness(),
        providers=None if providers == "all" else tuple(providers),
        supports=supports,
    )


def _preference(given: Mapping[str, Any], route: Route) -> Preference:
    wanted = given.get("wish", {})
    if "rules" not in given:
        return Preference(**wanted)
    return HarnessRules(**given["rules"]).preference(route, **wanted)


def _selection_data(chosen: Selection) -> dict[str, str]:
    return {
        "harness": chosen.harness,
        "reason": chosen.reason,
        "asked": chosen.asked,
        "detail": chosen.detail,
    }
