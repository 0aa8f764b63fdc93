from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.context.head import Choices, build_head
from treadle.core.errors import ConfigError
from treadle.core.specs import FunctionTool, parameters
from treadle.harness.codex.harness import CODEX_TRAITS
from treadle.models.catalog import Catalog
from treadle.models.formats import format_named
from treadle.models.profile import ModelProfile
from treadle.policy.effort import declared_efforts, turn_effort, wire_effort
from treadle.policy.target import Target, target_of
from treadle.policy.transport import (
    Params,
    add_params,
    asked_of,
    canonical,
    extra_params,
    resolve,
)

CATALOG = Catalog.load()
NAMES = (
    *("gpt-5.5", "gpt-5.4", "gpt-5.4-mini", "gpt-5.2", "gpt-5.6-sol", "gpt-5.6-luna", "gpt-5"),
    *("gpt-4.1", "o3", "gpt-oss-120b", "claude-opus-4-7", "llama3.1", "qwen3-coder", "unheard-of"),
)
LADDER = ("minimal", "low", "medium", "high", "xhigh", "max", "ultra")


def profile(name: str, **facts: object) -> ModelProfile:
    return CATALOG.profile(name).override(**facts)


def target(name: str, *, api: str = "responses", harness: str = "treadle") -> Target:
    found = CATALOG.profile(name)
    traits = CODEX_TRAITS if harness == "codex" else None
    made = target_of(found, api=api, harness=harness, traits=traits)
    return replace(made, native=True)


@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("provider", ["", "openai", "openrouter", "codex", "scripted"])
def test_without_wishes_a_head_stays_what_it_was(name, api, provider):
    model = profile(name)
    if provider:
        model = model.override(provider=provider)
    head = build_head(model, instructions="Work.", api=api)
    there = Target(provider=model.provider, model=model.slug, api=api)
    assert add_params(head, resolve(model, there)) == head
    spelled = [data for _, data in format_named(api).head_parts(head, "key")]
    settled = add_params(head, resolve(model, there, Choices(), {}))
    assert [data for _, data in format_named(api).head_parts(settled, "key")] == spelled


@pytest.mark.parametrize("provider", ["openai", "codex"])
def test_models_of_openai_have_defaults(provider):
    name = f"{provider}:gpt-5.4"
    assert extra_params(profile(name), target(name), {}) == {
        "parallel_tool_calls": True,
        "text_verbosity": "low",
    }


@pytest.mark.parametrize(
    "name", ["openrouter:gpt-5.4", "openai:gpt-4.1", "anthropic:claude-opus-5"]
)
def test_others_have_none(name):
    assert extra_params(profile(name), target(name), {}) is None


def test_a_default_that_a_model_does_not_bring_is_not_made_up():
    model, there = profile("gpt-5.4", default_verbosity=""), target("gpt-5.4")
    assert extra_params(model, there, {}) == {"parallel_tool_calls": True}
    assert resolve(model, there, None, extra_params(model, there, {})) == resolve(model, there)


def test_every_spelling_of_a_parameter_is_understood_and_its_value_kept():
    given = {"parallelToolCalls": False, "textVerbosity": "high", "cached_content": "caches/1"}
    assert canonical(given) == {
        "parallel_tool_calls": False,
        "text_verbosity": "high",
        "cachedContent": "caches/1",
    }
    assert extra_params(profile("openrouter:gpt-5.4"), target("openrouter:gpt-5.4"), given) == {
        "parallel_tool_calls": False,
        "text_verbosity": "high",
        "cachedContent": "caches/1",
    }


@given(
    st.dictionaries(
        st.sampled_from(["verbosity", "text_verbosity", "textVerbosity", "x"]), st.integers()
    )
)
def test_the_one_spelling_wins_and_spelling_again_changes_nothing(given_params):
    once = canonical(given_params)
    assert canonical(once) == once
    if "text_verbosity" in given_params:
        assert once["text_verbosity"] == given_params["text_verbosity"]


def test_what_is_asked_for_a_model_wins_over_what_is_asked_for_its_provider():
    settings: dict[str, dict[str, object]] = {
        "openai": {"text_verbosity": "medium", "temperature": 0},
        "gpt-5.4": {"textVerbosity": "high"},
    }
    asked = asked_of(settings, "openai", "gpt-5.4")
    assert extra_params(profile("openai:gpt-5.4"), target("openai:gpt-5.4"), asked) == {
        "parallel_tool_calls": True,
        "text_verbosity": "high",
        "temperature": 0,
    }


SPELLED: dict[str, dict[str, bytes]] = {
    "responses": {
        "parallel_tool_calls": b'"parallel_tool_calls":',
        "effort": b'"effort":',
        "summary": b'"summary":',
        "verbosity": b'"verbosity":',
        "service_tier": b'"service_tier":',
    },
    "chat": {
        "parallel_tool_calls": b'"parallel_tool_calls":',
        "effort": b'"reasoning_effort":',
        "summary": b'"summary":',
        "verbosity": b'"verbosity":',
        "service_tier": b'"service_tier":',
    },
    "messages": {
        "parallel_tool_calls": b'"parallel_tool_calls":',
        "effort": b'"effort":',
        "summary": b'"display":"summarized"',
        "verbosity": b'"verbosity":',
        "service_tier": b'"service_tier":',
    },
}


LEFT_OUT = {
    ("openai", "responses"): set(),
    ("openrouter", "responses"): set(),
    ("openai", "chat"): {"summary"},
    ("openrouter", "chat"): {"summary", "verbosity"},
    ("anthropic", "messages"): {"parallel_tool_calls", "verbosity"},
}


@pytest.mark.parametrize(("provider", "api"), LEFT_OUT)
def test_the_formats_send_what_their_apis_have_a_place_for(provider, api):
    slug = "claude-opus-4-7" if api == "messages" else "gpt-5.5"
    model = profile(slug, provider=provider, verbosity=True, service_tiers=("auto",))
    there = Target(provider=provider, model=slug, api=api)
    wishes = Choices(effort="high", summary="auto", verbosity="low", service_tier="auto")
    tool = FunctionTool(name="look", description="", parameters=parameters({}))
    bare = build_head(model, instructions="", tools=(tool,), api=api)
    head = add_params(bare, resolve(model, there, wishes))
    body = b"".join(data for _, data in format_named(api).head_parts(head, ""))
    spelled = SPELLED[api]
    assert {name for name, field in spelled.items() if field not in body} == LEFT_OUT[
        (provider, api)
    ]


def test_a_level_that_is_asked_for_wins_over_an_effort_of_none():
    params = resolve(
        profile("gpt-5.2"), target("gpt-5.2"), Choices(effort="high"), {"reasoning_effort": "none"}
    )
    assert (params.effort, params.summary) == ("high", "auto")


def test_choices_win_over_extra_parameters_and_these_over_what_a_model_brings():
    extra = {"text_verbosity": "high", "parallelToolCalls": False, "serviceTier": "priority"}
    model, there = profile("gpt-5.5"), target("gpt-5.5")
    assert resolve(model, there, None, extra) == Params(
        parallel_tool_calls=False, effort="medium", verbosity="high", service_tier="priority"
    )
    chosen = resolve(model, there, Choices(verbosity="medium", summary="detailed"), extra)
    assert (chosen.verbosity, chosen.summary) == ("medium", "detailed")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"parallelToolCalls": "yes"}, "'parallel_tool_calls' cannot be 'yes'; use true or false"),
        ({"text_verbosity": "loud"}, "'text_verbosity' cannot be 'loud'; use one of low"),
        ({"reasoning_effort": 3}, "'reasoning_effort' cannot be 3; use a word"),
        ({"max_output_tokens": 0}, "'max_output_tokens' cannot be 0; use a whole number above 0"),
        ({"temperature": 2.5}, "'temperature' cannot be 2.5; use a number from 0 to 2"),
        ({"prompt_cache_retention": "1h"}, "cannot be '1h'; use one of in_memory, 24h"),
        ({"cache_ttl": "5m"}, "'cache_ttl' cannot be '5m'; use one of 30m, 12h"),
        ({"cache_breakpoints": 1}, "'cache_breakpoints' cannot be 1; use true or false"),
        ({"service_tier": "nonsense"}, "'nonsense' is none of openai:gpt-5.5; use one of auto"),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused_by_name(extra, message):
    with pytest.raises(ConfigError, match=message):
        resolve(profile("gpt-5.5"), target("gpt-5.5"), None, extra)


@pytest.mark.parametrize(
    ("name", "api", "extra", "message"),
    [
        ("anthropic:claude-opus-5", "messages", {"temperature": 1.5}, "a number from 0 to 1"),
        ("anthropic:claude-opus-5", "messages", {"cache_ttl": "12h"}, "use one of 5m, 1h"),
        ("groq:some", "chat", {"cache_ttl": "1h"}, "this model takes no such parameter"),
        ("groq:some", "chat", {"cache_breakpoints": True}, "takes no 'cache_breakpoints'"),
        ("mistral:some", "chat", {"service_tier": "flex"}, "list the model's `service_tiers`"),
    ],
)
def test_what_a_provider_does_not_take_is_refused_with_what_it_takes(name, api, extra, message):
    provider, _, slug = name.partition(":")
    there = Target(provider=provider, model=slug, api=api)
    with pytest.raises(ConfigError, match=message):
        resolve(profile(slug, provider=provider), there, None, extra)


@pytest.mark.parametrize(
    ("model", "extra", "is_refused"),
    [
        ("claude-opus-5", {"temperature": 0.2, "reasoning_effort": "high"}, True),
        ("claude-sonnet-4-5", {"temperature": 0, "reasoning_effort": "low"}, True),
        ("claude-opus-5", {"temperature": 1, "reasoning_effort": "high"}, False),
        ("claude-opus-5", {"temperature": 0.2, "reasoning_effort": "none"}, False),
        ("claude-opus-5", {"temperature": 0.2}, False),
        ("claude-3-5-haiku", {"temperature": 0.2, "reasoning_effort": "high"}, False),
    ],
)
def test_claude_thinks_at_no_temperature_of_the_users(model, extra, is_refused):
    there = Target(provider="anthropic", model=model, api="messages")
    facts = profile(model, provider="anthropic")
    if is_refused:
        with pytest.raises(ConfigError, match=r"while '.*' thinks with the effort"):
            resolve(facts, there, None, extra)
    else:
        assert resolve(facts, there, None, extra).temperature == extra["temperature"]


@pytest.mark.parametrize("level", ["minimal", "low", "medium", "high", "xhigh"])
def test_a_level_is_the_turns_effort_where_a_model_declares_nothing(level):
    assert turn_effort(profile("codex:unheard-of"), level) == level


@pytest.mark.parametrize("level", ["off", "adaptive", "max", "", None])
def test_some_wishes_leave_it_to_a_model_that_declares_nothing(level):
    assert turn_effort(profile("codex:unheard-of"), level) is None


@pytest.mark.parametrize(
    ("name", "level", "effort"),
    [
        ("gpt-5.5", "minimal", "low"),
        ("gpt-5.5", "max", "xhigh"),
        ("gpt-5.5", "off", None),
        ("gpt-5.5", "ultra", "ultra"),
        ("gpt-5.5-pro", "low", "medium"),
        ("gpt-5.4-pro", "max", "xhigh"),
        ("gpt-5.6-luna", "max", "max"),
        ("o3", "xhigh", "high"),
        ("gpt-5", "minimal", "minimal"),
        ("claude-opus-4-7", "max", "max"),
        ("gpt-5.5", "turbo", "turbo"),
    ],
)
def test_a_level_becomes_the_nearest_that_is_not_lower(name, level, effort):
    assert turn_effort(profile(name), level) == effort


def test_off_is_said_where_a_model_lists_it():
    assert turn_effort(profile("gpt-5.5", efforts=("none", "low")), "off") == "none"


@pytest.mark.parametrize(
    ("slug", "effort"),
    [("gpt-5.3", "low"), ("gpt-6-nova", "low"), ("gpt-5.2", "minimal"), ("gpt-5", "minimal")],
)
def test_later_models_know_no_minimal_effort(slug, effort):
    assert turn_effort(ModelProfile(slug=slug), "minimal") == effort


@given(
    st.lists(st.sampled_from(LADDER[:-1]), unique=True, min_size=1), st.sampled_from(LADDER[:-1])
)
def test_an_effort_is_declared_and_as_high_as_wanted_if_it_can_be(efforts, level):
    found = turn_effort(
        ModelProfile(slug="gpt-5.5", entry="gpt-5.5", efforts=tuple(efforts)), level
    )
    assert found in efforts
    higher = [each for each in efforts if LADDER.index(each) >= LADDER.index(level)]
    assert found == min(higher or [max(efforts, key=LADDER.index)], key=LADDER.index)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [*LADDER, "off", "none"])
def test_both_harnesses_follow_from_one_wish(name, level):
    model, wish = profile(name), Choices(effort=level)
    ours = resolve(model, target(name), wish)
    codex = resolve(model, target(name, harness="codex"), wish)
    assert codex.effort == turn_effort(model, level)
    assert ours.effort == ("max" if codex.effort == "ultra" else codex.effort)


def test_codex_is_told_only_what_was_asked_for():
    there = target("codex:gpt-5.5", harness="codex")
    assert resolve(profile("codex:gpt-5.5"), there) == Params()
    assert resolve(
        profile("codex:gpt-5.5"), there, Choices(effort="high", summary="none")
    ) == Params(effort="high", summary="none")


def test_who_leaves_it_to_the_model_gets_what_the_model_brings():
    assert wire_effort(profile("gpt-5.5"), "adaptive") == "medium"
    assert wire_effort(profile("gpt-5.5"), None) == "medium"
    assert wire_effort(profile("claude-opus-4-7"), "adaptive") is None


def test_an_entry_of_its_own_says_what_a_pro_model_takes():
    listed = ModelProfile(slug="gpt-5.5-pro", entry="gpt-5.5-pro", efforts=("high",))
    assert declared_efforts(listed) == ("high",)
    assert declared_efforts(profile("gpt-5.5-pro")) == ("medium", "high", "xhigh")
