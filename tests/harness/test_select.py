from __future__ import annotations

from typing import Any

import pytest

from treadle.core.errors import MissingHarness, UnsupportedHarness
from treadle.harness.offers import Registration, Route, Support
from treadle.harness.registry import HarnessRegistry
from treadle.harness.select import HarnessRules, Preference, Selection, select

from .packages import Parrot

OPENAI = Route(model="openai:gpt-5.5", provider="openai")
CODEX = Route(model="codex:gpt-5.5", provider="codex", reachable=False)


def registry(*others: Registration) -> HarnessRegistry:
    found = HarnessRegistry()
    for each in others:
        found.register(each)
    return found


def harness(name: str, **options: Any) -> Registration:
    return Registration(id=name, label=name, factory=lambda _: Parrot(name), **options)


def says(**support: Any):
    return lambda _: Support(**support)


def test_other_models_go_to_treadle_unless_asked():
    assert select(Preference(), registry(), OPENAI) == Selection(
        harness="treadle", reason="auto_treadle"
    )


def test_a_codex_model_selects_codex_under_auto():
    auto = Selection(harness="codex", reason="auto_plugin")
    for preference in (
        Preference(),
        Preference(run="auto"),
        Preference(pin="default", run="AUTO", general="auto"),
    ):
        assert select(preference, registry(), CODEX) == auto


def test_codex_runs_other_models_when_asked():
    chosen = select(Preference(run="codex-app-server"), registry(), OPENAI)
    assert chosen == Selection(harness="codex", reason="forced_plugin", asked="run")


def test_treadle_can_be_asked_for_by_every_name_it_has():
    for name in ("treadle", "loop", "", " Treadle "):
        chosen = select(Preference(run=name), registry(), OPENAI)
        assert chosen == Selection(harness="treadle", reason="forced_treadle", asked="run")


def test_treadle_does_not_reach_what_only_codex_reaches():
    with pytest.raises(UnsupportedHarness, match="through a harness of its own only"):
        select(Preference(run="treadle"), registry(), CODEX)


def test_a_provider_of_that_name_in_the_settings_is_reached():
    route = Route(model="codex:gpt-5.5", provider="codex")
    assert select(Preference(run="treadle"), registry(), route).reason == "forced_treadle"
    assert select(Preference(), registry(), route).reason == "auto_plugin"


@pytest.mark.parametrize(
    ("preference", "asked"),
    [
        (
            Preference(
                pin="codex", run="treadle", model="treadle", provider="treadle", general="treadle"
            ),
            "pin",
        ),
        (Preference(run="codex", model="treadle", provider="treadle", general="treadle"), "run"),
        (Preference(model="codex", provider="treadle", general="treadle"), "model"),
        (Preference(provider="codex", general="treadle"), "provider"),
        (Preference(general="codex"), "general"),
        (Preference(pin="auto", run="default", model="codex", provider="treadle"), "model"),
    ],
)
def test_the_nearest_wish_counts_and_auto_leaves_it_to_the_next(preference, asked):
    chosen = select(preference, registry(), OPENAI)
    assert chosen == Selection(harness="codex", reason="forced_plugin", asked=asked)


def test_an_unknown_name_tells_the_known_ones():
    with pytest.raises(MissingHarness) as caught:
        select(Preference(run="codecs"), registry(harness("mine")), OPENAI)
    assert str(caught.value) == (
        "no harness 'codecs'; there are 'codex', 'treadle', 'mine', and 'auto' chooses"
    )


def test_a_harness_that_cannot_is_an_error_unless_it_declares_a_fallback():
    wont = harness("wont", supports=says(supported=False, reason="no licence"))
    falls = harness("falls", supports=says(supported=False, reason="no key", fallback=True))
    with pytest.raises(UnsupportedHarness) as caught:
        select(Preference(run="wont"), registry(wont), OPENAI)
    assert (caught.value.harness, caught.value.reason) == ("wont", "no licence")
    assert select(Preference(run="falls"), registry(falls), OPENAI) == Selection(
        harness="treadle", reason="plugin_declared_fallback_treadle", asked="run", detail="no key"
    )
    with pytest.raises(UnsupportedHarness, match="harness 'treadle'"):
        select(Preference(run="falls"), registry(falls), CODEX)


def test_auto_asks_only_those_that_want_the_provider():
    asked: list[str] = []

    def noting(route: Route) -> Support:
        asked.append(route.provider)
        return Support(supported=True, priority=5)

    shy = harness("shy", supports=noting)
    picky = harness("picky", providers=("other",), supports=noting)
    assert select(Preference(), registry(shy, picky), OPENAI).reason == "auto_treadle"
    assert asked == []
    open_to_all = harness("open", providers=None, supports=noting)
    assert select(Preference(), registry(open_to_all), OPENAI).harness == "open"
    assert asked == ["openai"]


def test_auto_takes_the_highest_priority_then_the_first_id():
    low = harness("alow", providers=None, supports=says(supported=True, priority=1))
    second = harness("zebra", providers=None, supports=says(supported=True, priority=9))
    first = harness("yak", providers=None, supports=says(supported=True, priority=9, reason="!"))
    chosen = select(Preference(), registry(low, second, first), OPENAI)
    assert chosen == Selection(harness="yak", reason="auto_plugin", detail="!")
    assert select(Preference(), registry(low, second, first), CODEX).harness == "codex"


def test_one_that_raises_when_it_is_asked_is_passed_over():
    def raises(_: Route) -> Support:
        raise OSError("token=hunter2 is gone")

    broken = harness("broken", providers=None, supports=raises)
    assert select(Preference(), registry(broken), OPENAI).harness == "treadle"
    with pytest.raises(UnsupportedHarness, match="it raised OSError") as caught:
        select(Preference(run="broken"), registry(broken), OPENAI)
    assert "hunter2" not in str(caught.value)


def test_a_harness_is_told_what_was_asked_for():
    seen: list[str] = []

    def noting(route: Route) -> Support:
        seen.append(route.requested)
        return Support(supported=True)

    found = registry(harness("mine", providers=None, supports=noting))
    select(Preference(), found, OPENAI)
    select(Preference(run=" Mine"), found, OPENAI)
    assert seen == ["auto", "mine"]


def test_rules_find_a_model_with_and_without_its_provider():
    exact = HarnessRules(models={"openai:gpt-5.5": "a", "gpt-5.5": "b"}, providers={"openai": "c"})
    bare = HarnessRules(models={"gpt-5.5": "b"}, general="d")
    unnamed = Route(model="gpt-5.5", provider="openai")
    assert exact.preference(OPENAI) == Preference(model="a", provider="c", general="auto")
    assert bare.preference(OPENAI, pin="p", run="r") == Preference(
        pin="p", run="r", model="b", general="d"
    )
    assert exact.preference(unnamed).model == "b"
    assert HarnessRules(models={"openai:gpt-5.5": "a"}).preference(unnamed).model == "a"
    assert exact.preference(CODEX) == Preference(model="b", general="auto")
