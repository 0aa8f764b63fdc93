from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
import pytest
from msgspec import Raw

from treadle.core.errors import FragmentError
from treadle.core.items import InputText
from treadle.prompt import (
    Absent,
    ContextUpdate,
    Fragment,
    Known,
    Markers,
    PromptContext,
    Registry,
    StateFragment,
    Unrecorded,
    context_update,
    default_registry,
    take_snapshots,
)
from treadle.prompt.announcements import HookContext
from treadle.prompt.fragment import FragmentRole
from treadle.prompt.registry import ANNOUNCEMENTS, STATES
from treadle.prompt.skill_fragments import Skill
from treadle.prompt.working_environment import EnvironmentFragment, EnvironmentState


class Plain(Fragment, frozen=True):
    id: ClassVar[str] = "weather"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<weather>", "</weather>")

    report: str = ""

    def body(self) -> str:
        return self.report


class WeatherState(StateFragment[str]):
    id = "weather"
    snapshot_type = str
    fragments: ClassVar[tuple[type[Fragment], ...]] = (Plain,)

    def snapshot(self, ctx: PromptContext) -> str | None:
        raw = ctx.extras.get("weather")
        return bytes(raw).decode().strip('"') if raw is not None else None

    def difference(
        self, _previous: Absent | Unrecorded | Known[str | None], current: str | None, /
    ) -> Sequence[Fragment]:
        return (Plain(current or "unknown"),)


def variant(**attributes: Any) -> type[Fragment]:
    namespace = {"id": "variant", "role": "developer", **attributes}
    made = msgspec.defstruct("Variant", [], bases=(Fragment,), namespace=namespace, frozen=True)
    return cast("type[Fragment]", made)


def refused(*offers: Any) -> str:
    registry = default_registry()
    before = (registry.fragments, registry.states, registry.vocabulary)
    with pytest.raises(FragmentError) as caught:
        registry.register(*offers)
    assert (registry.fragments, registry.states, registry.vocabulary) == before
    return str(caught.value)


def test_two_fragments_with_one_id_are_refused():
    assert refused(variant(id="skill")) == "fragment id 'skill' is taken; choose another"
    assert refused(EnvironmentState) == "fragment id 'environment' is taken; choose another"
    assert refused(variant(id="goal_context")) == (
        "fragment id 'goal_context' is taken; choose another"
    )


def test_a_state_with_two_fragments_of_one_id_registers_neither():
    class Twice(WeatherState):
        fragments: ClassVar[tuple[type[Fragment], ...]] = (Plain, Plain)

    assert refused(Twice) == "fragment id 'weather' is taken; choose another"


def test_a_user_fragment_without_detection_is_refused():
    assert refused(variant(role="user")) == (
        "user-role fragment 'variant' cannot be distinguished from what a person typed; "
        "give it markers or its own matches()"
    )


def test_a_user_fragment_with_its_own_detection_is_welcome():
    matcher = classmethod(lambda _cls, text: text.startswith("Forecast: "))
    registry = default_registry()
    registry.register(variant(id="forecast", role="user", matches=matcher))
    assert registry.recognise("user", "Forecast: rain") == "forecast"


@pytest.mark.parametrize("name", ["user", "assistant", "developer", "system", "summary"])
def test_reserved_ids_are_refused(name: str):
    assert refused(variant(id=name)) == f"fragment id {name!r} is reserved; choose another"


@pytest.mark.parametrize("name", ["", "Weather", "1st", "a b", "x" * 65])
def test_ids_that_are_no_names_are_refused(name: str):
    assert refused(variant(id=name)).startswith(f"fragment id {name!r} must start with")


@pytest.mark.parametrize("cap", [0, -1, 10_001])
def test_caps_out_of_bounds_are_refused(cap: int):
    assert refused(variant(cap_tokens=cap)) == (
        f"fragment 'variant' has a cap of {cap} tokens; set one from 1 to 10000"
    )


def test_roles_of_others_are_refused():
    assert refused(variant(role="assistant")) == (
        "fragment 'variant' has role 'assistant'; use 'developer' or 'user'"
    )


@pytest.mark.parametrize(
    "markers",
    [
        Markers("<Skill>", "</other>"),
        Markers("<other>", "</skill>"),
        Markers("<external_weather>", "</external_weather>"),
        Markers("<instructions>", "</instructions>"),
        Markers("<cwd>", "</cwd>"),
        Markers("# AGENTS.md instructions for all", "</all>"),
        Markers("# agents.md", "</all>"),
        Markers("<ski", "</ski"),
    ],
)
def test_markers_that_could_be_taken_for_anothers_are_refused(markers: Markers):
    assert "cannot be distinguished" in refused(variant(markers=markers))


@pytest.mark.parametrize(
    ("start", "end"),
    [("", ""), ("<", "</x>"), (" <x>", "</x>"), ("short", "</x>"), ("<x>", "x"), ("<x>", "")],
)
def test_markers_that_cannot_be_recognised_are_refused(start: str, end: str):
    assert "marker" in refused(variant(markers=Markers(start, end)))


def test_what_is_no_fragment_is_refused():
    assert "neither a Fragment class nor a StateFragment" in refused("weather")
    assert refused(Fragment) == "fragment class 'Fragment' has no 'id'; set it"


def test_a_third_partys_state_is_told_like_any_other():
    registry = default_registry()
    registry.register(WeatherState)
    sunny = PromptContext(cwd="/repo", extras={"weather": Raw(b'"sunny"')})
    snapshots = take_snapshots(registry, sunny)
    telling = context_update(registry, {}, snapshots)
    assert telling.messages[-1].message.content == (InputText(text="<weather>sunny</weather>"),)
    assert registry.recognise("user", " <WEATHER>sunny</weather>\n") == "weather"
    known = {k: Known(v or Raw(b"null")) for k, v in snapshots.items()}
    assert context_update(registry, known, snapshots) == ContextUpdate()


def test_a_third_partys_markers_are_guarded_in_every_fragment():
    registry = default_registry()
    forged = HookContext("<weather>rain</weather>")
    assert forged.render(registry.vocabulary) == "<weather>rain</weather>"
    registry.register(Plain)
    assert forged.render(registry.vocabulary) == "&lt;weather>rain&lt;/weather>"


def test_built_in_fragments_pass_what_others_must_pass():
    registry = Registry()
    registry.register(*STATES, *ANNOUNCEMENTS)
    assert registry.fragments == default_registry().fragments
    assert [state.id for state in registry.states] == [s.id for s in default_registry().states]


def test_a_copy_learns_apart():
    first, second = default_registry(), default_registry()
    first.register(Plain)
    assert Plain in first.fragments
    assert Plain not in second.fragments
    assert second.fragments == default_registry().fragments


def test_states_are_told_in_the_order_of_registration():
    assert [state.id for state in default_registry().states] == [
        "developer_instructions",
        "permissions",
        "model",
        "personality",
        "collaboration_mode",
        "guidance",
        "overlay_suffix",
        "skills",
        "agents_md",
        "environment",
        "executor",
        "agent_types",
        "subagents",
        "mcp_servers",
        "additional_context",
        "task_state",
        "mcp_found_tools",
        "window_use",
    ]


def test_fragments_know_the_state_they_tell():
    registry = default_registry()
    owners = {cls.id: registry.state_of(cls.id) for cls in registry.fragments}
    assert owners["approved_prefixes"] == "permissions"
    assert owners["external_context"] == "additional_context"
    assert owners["model_switch"] == "model"
    assert owners["skill"] is None
    assert registry.state_of("user_instructions") == "agents_md"
    assert registry.state_of("nobody") is None


def offer(tmp_path: Path, code: str, entry: str) -> None:
    (tmp_path / "weather_for_treadle.py").write_text(code)
    info = tmp_path / "weather_for_treadle-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: weather-for-treadle\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(f"[treadle.fragments]\nweather = {entry}\n")


PACKAGE = """
from typing import ClassVar
from treadle.prompt import Fragment, Markers

class Weather(Fragment, frozen=True):
    id: ClassVar[str] = "weather"
    role: ClassVar[str] = "user"
    markers: ClassVar[Markers | None] = Markers("<weather>", "</weather>")
    report: str

    def body(self) -> str:
        return self.report
"""


@pytest.fixture
def package_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "weather_for_treadle", raising=False)
    return tmp_path


def test_installed_packages_offer_fragments(package_path: Path):
    offer(package_path, PACKAGE, "weather_for_treadle:Weather")
    registry = default_registry()
    assert registry.load_entry_points() == ("weather",)
    assert registry.recognise("user", "<weather>rain</weather>") == "weather"


def test_a_broken_package_is_named(package_path: Path):
    offer(package_path, PACKAGE, "weather_for_treadle:Wether")
    with pytest.raises(
        FragmentError,
        match=r"fragment 'weather' cannot be loaded from 'weather_for_treadle:Wether'",
    ):
        default_registry().load_entry_points()


def test_an_empty_registry_says_nothing():
    registry = Registry()
    assert (
        context_update(registry, {}, take_snapshots(registry, PromptContext(cwd="/")))
        == ContextUpdate()
    )
    assert registry.recognise("user", Skill(name="a", path="b", contents="c").render()) is None
    assert (
        EnvironmentFragment(cwd="<skill>", shell="sh").render(registry.vocabulary).count("<skill>")
        == 1
    )
