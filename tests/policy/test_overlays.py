from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import FragmentError
from treadle.policy.overlays import MOST_TOKENS, Overlaid, Overlays, add_contribution
from treadle.prompt import PromptContext
from treadle.prompt.contributions import Audience, Contribution, Section, installed_overlays
from treadle.prompt.standing_instructions import OverlaySuffixState
from treadle.prompt.state_fragment import Absent, Known, TextSnapshot

HERE = PromptContext(cwd="/repo", developer_instructions="Be brief.")
OPENAI = Audience(provider="openai", model="gpt-5.5")


class Saying:
    def __init__(self, name: str, added: Contribution | None, provider: str = "openai") -> None:
        self.id, self.added, self.provider = name, added, provider

    def contribute(self, audience: Audience, settings: PromptContext) -> Contribution | None:
        del settings
        return self.added if audience.provider == self.provider else None


class Failing:
    id = "failing"

    def contribute(self, audience: Audience, settings: PromptContext) -> Contribution | None:
        raise ValueError(f"no words for {audience.model} in {settings.cwd}")


@pytest.mark.parametrize("provider", ["openai", "codex", "anthropic", "openrouter"])
@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-5.4", "gpt-4.1", "claude-opus-5"])
@pytest.mark.parametrize("personality", [None, "friendly", "off"])
def test_treadle_adds_nothing_of_its_own(provider, model, personality):
    settings = PromptContext(cwd="/repo", personality=personality)
    overlaid = Overlays().resolve(Audience(provider=provider, model=model), settings)
    assert overlaid == Overlaid()
    assert add_contribution(settings, overlaid.contribution) is settings


def test_a_prefix_leads_the_developer_text_and_a_suffix_stands_for_itself():
    added = Contribution(
        stable_prefix="Tests come first.\n",
        dynamic_suffix="The service is slow today.",
        section_overrides={"tool_call_style": "One call at a time."},
    )
    overlaid = Overlays([Saying("house", added)]).resolve(OPENAI, HERE)
    assert overlaid.sources == ("house",)
    assert add_contribution(HERE, overlaid.contribution) == PromptContext(
        cwd="/repo",
        developer_instructions=(
            "Tests come first.\n\n"
            "In place of what your instructions say about calling tools:\nOne call at a time.\n\n"
            "Be brief."
        ),
        overlay_suffix="The service is slow today.",
    )


def test_an_overlay_is_heard_only_by_those_it_is_for():
    overlays = Overlays([Saying("house", Contribution(stable_prefix="Hello."))])
    assert overlays.resolve(Audience(provider="anthropic", model="m"), HERE) == Overlaid()


def test_overlays_speak_in_order_and_the_later_one_overrides():
    first = Contribution(
        stable_prefix="One.", section_overrides={"execution_bias": "Ask.", "tool_call_style": "A."}
    )
    second = Contribution(
        stable_prefix="Two.", dynamic_suffix="Now.", section_overrides={"execution_bias": "Act."}
    )
    overlaid = Overlays([Saying("a", first), Saying("b", second)]).resolve(OPENAI, HERE)
    assert overlaid == Overlaid(
        contribution=Contribution(
            stable_prefix="One.\n\nTwo.",
            dynamic_suffix="Now.",
            section_overrides={"tool_call_style": "A.", "execution_bias": "Act."},
        ),
        sources=("a", "b"),
    )


def test_an_overlay_that_fails_adds_nothing_and_the_others_are_heard():
    overlays = Overlays([Failing(), Saying("house", Contribution(stable_prefix="Hello."))])
    assert overlays.resolve(OPENAI, HERE) == Overlaid(
        contribution=Contribution(stable_prefix="Hello."),
        sources=("house",),
        problems=("the overlay 'failing' adds nothing: no words for gpt-5.5 in /repo",),
    )


def test_what_an_overlay_says_of_its_failure_holds_no_secret():
    audience = Audience(provider="openai", model="sk-planted-0123456789")
    (problem,) = Overlays([Failing()]).resolve(audience, HERE).problems
    assert problem == "the overlay 'failing' adds nothing: no words for … in /repo"


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        (Contribution(stable_prefix="x" * 4 * (MOST_TOKENS + 50)), "use at most 4000"),
        (
            Contribution(section_overrides={"mood": "Sing."}),  # type: ignore[dict-item]
            "there is no section 'mood'; use interaction_style, tool_call_style, execution_bias",
        ),
    ],
)
def test_what_cannot_be_told_is_left_out_by_name(added, problem):
    overlaid = Overlays([Saying("loud", added)]).resolve(OPENAI, HERE)
    assert overlaid.contribution is None
    assert len(overlaid.problems) == 1
    assert problem in overlaid.problems[0]


def test_two_overlays_cannot_have_one_name():
    overlays = Overlays([Failing()])
    with pytest.raises(FragmentError, match="overlay id 'failing' is taken; choose another"):
        overlays.register(Failing())


def test_a_suffix_is_told_by_difference():
    state = OverlaySuffixState()
    slow, fine = (
        state.snapshot(PromptContext(cwd="/", overlay_suffix=text)) for text in ("Slow.", "Fine.")
    )
    assert slow is not None
    assert fine is not None
    steps: list[tuple[Absent | Known[TextSnapshot | None], TextSnapshot | None]] = [
        (Absent(), slow),
        (Known(slow), fine),
        (Known(fine), None),
    ]
    said = [
        fragment.render()
        for previous, current in steps
        for fragment in state.difference(previous, current)
    ]
    assert said == [
        "<provider_notes>\nSlow.\n</provider_notes>",
        "<provider_notes>\nThese notes replace the earlier ones:\n\nFine.\n</provider_notes>",
        "<provider_notes>\nThe earlier notes no longer apply.\n</provider_notes>",
    ]


TEXTS = st.sampled_from(["", "  ", "Hello.", "Two\nlines.", " spaced "])
SECTIONS: st.SearchStrategy[dict[Section, str]] = st.dictionaries(
    st.sampled_from(["interaction_style", "tool_call_style", "execution_bias"]), TEXTS
)
CONTRIBUTIONS = st.builds(
    Contribution, stable_prefix=TEXTS, dynamic_suffix=TEXTS, section_overrides=SECTIONS
)


@given(st.lists(CONTRIBUTIONS, max_size=3), st.sampled_from([None, "Be brief."]))
def test_what_the_user_asked_for_always_stands_last_and_whole(added, instructions):
    settings = PromptContext(cwd="/repo", developer_instructions=instructions)
    overlays = Overlays(Saying(str(place), each) for place, each in enumerate(added))
    first = add_contribution(settings, overlays.resolve(OPENAI, settings).contribution)
    assert (first.developer_instructions or "").endswith(instructions or "")
    assert first == add_contribution(settings, overlays.resolve(OPENAI, settings).contribution)
    prefixes = [each.stable_prefix.strip() for each in added if each.stable_prefix.strip()]
    assert (first.developer_instructions or "").startswith("\n\n".join(prefixes))
    assert first.developer_instructions != ""
    assert (first.overlay_suffix or "x").strip()


def offer(directory: Path, module: str, code: str) -> None:
    (directory / f"{module}.py").write_text(code)
    info = directory / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[treadle.overlays]\nhouse = {module}:House\n")


def test_packages_offer_overlays(tmp_path, monkeypatch):
    offer(
        tmp_path,
        "overlay_for_treadle",
        "from treadle.prompt.contributions import Contribution\n"
        "class House:\n"
        "    id = 'house'\n"
        "    def contribute(self, audience, settings):\n"
        "        return Contribution(stable_prefix=f'You are {audience.model}.')\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    overlaid = Overlays(installed_overlays()).resolve(OPENAI, HERE)
    assert overlaid.contribution == Contribution(stable_prefix="You are gpt-5.5.")


def test_a_package_that_cannot_be_loaded_is_named(tmp_path, monkeypatch):
    offer(tmp_path, "broken_overlay_for_treadle", "House = 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(FragmentError, match=r"overlay 'house' cannot be loaded from .*TypeError"):
        installed_overlays()
