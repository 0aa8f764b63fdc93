from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.auth.cooldowns import NEUTRAL, Obstacle, ProfileHealth, after_failure, obstacle
from treadle.policy.auth.credential import Kind, Profile, Source
from treadle.policy.auth.order import (
    Pin,
    ProfileCandidate,
    can_move_pin,
    can_rotate,
    candidates,
    candidates_beside_login,
    candidates_to_try,
    is_valid_pin,
)

NOW = 1_000_000_000_000


def profile(name: str, kind: Kind = "api_key", **more) -> Profile:
    return Profile(id=f"openai:{name}", provider="openai", kind=kind, **more)


def names(found: tuple[ProfileCandidate, ...]) -> list[str]:
    return [each.profile.id.removeprefix("openai:") for each in found]


def pin(name: str, source: Source = "auto") -> Pin:
    return Pin(thread="t", provider="openai", profile=f"openai:{name}", source=source)


KEYS = [profile("a"), profile("b"), profile("c")]


def test_oauth_comes_before_tokens_before_keys_and_what_has_ended_after_its_kind():
    kinds = [
        profile("key"),
        profile("ended", "oauth", expires=NOW),
        profile("token", "token"),
        profile("good", "oauth", expires=NOW + 1),
    ]
    assert names(candidates(kinds, health={}, now=NOW)) == ["good", "ended", "token", "key"]


def test_among_equals_the_one_that_rested_longest_comes_first():
    health = {"openai:a": ProfileHealth(last_used=9), "openai:b": ProfileHealth(last_used=5)}
    assert names(candidates(KEYS, health=health, now=NOW)) == ["c", "b", "a"]


def test_a_key_in_the_environment_comes_before_what_is_kept():
    environment = profile("environment", place="environment")
    found = candidates([profile("o", "oauth"), environment], health={}, now=NOW)
    assert names(found) == ["environment", "o"]


def test_a_stored_order_comes_before_a_configured_one_and_leaves_the_others_out():
    stored, configured = ("openai:c", "openai:a"), ("openai:b",)
    both = (stored, configured)
    assert names(candidates(KEYS, health={}, now=NOW, orders=both)) == ["c", "a"]
    only = ((), configured)
    assert names(candidates(KEYS, health={}, now=NOW, orders=only)) == ["b"]


def test_an_order_of_profiles_that_are_all_gone_is_no_order():
    orders = (("openai:gone", "anthropic:a"), ("openai:b", "openai:b"))
    assert names(candidates(KEYS, health={}, now=NOW, orders=orders)) == ["b"]
    gone = (("openai:gone",),)
    assert names(candidates(KEYS, health={}, now=NOW, orders=gone)) == ["a", "b", "c"]


def test_those_that_have_to_rest_come_last_the_soonest_back_first_in_any_order():
    health = {
        "openai:a": after_failure(ProfileHealth(), "billing", NOW),
        "openai:b": after_failure(ProfileHealth(), "auth", NOW),
    }
    orders = (("openai:a", "openai:b", "openai:c"),)
    for asked in ((), orders):
        found = candidates(KEYS, health=health, now=NOW, orders=asked)
        assert names(found) == ["c", "b", "a"]
        assert [each.usable for each in found] == [True, False, False]


def test_a_profile_rests_for_the_model_that_is_limited_only():
    health = {"openai:a": after_failure(ProfileHealth(), "rate_limit", NOW, model="large")}
    assert names(candidates(KEYS, health=health, now=NOW, model="large")) == ["b", "c", "a"]
    assert names(candidates(KEYS, health=health, now=NOW, model="small")) == ["a", "b", "c"]


@pytest.mark.parametrize("source", ["auto", "user"])
def test_a_pin_comes_first_while_its_profile_is_usable(source):
    orders = (("openai:a", "openai:b"),)
    found = candidates(KEYS, health={}, now=NOW, orders=orders, pin=pin("b", source))
    assert names(found) == ["b", "a"]
    assert [(each.source, each.pinned) for each in found] == [(source, True), ("auto", False)]
    resting = {"openai:b": after_failure(ProfileHealth(), "auth", NOW)}
    found = candidates(KEYS, health=resting, now=NOW, orders=orders, pin=pin("b", source))
    assert (names(found), found[1].source) == (["a", "b"], source)


def test_a_provider_whose_profiles_all_rest_is_asked_once():
    health = {each.id: after_failure(ProfileHealth(), "billing", NOW) for each in KEYS}
    health["openai:b"] = after_failure(ProfileHealth(), "auth", NOW)
    found = candidates(KEYS, health=health, now=NOW)
    assert names(candidates_to_try(found)) == ["b"]
    assert names(candidates_to_try(candidates(KEYS, health={}, now=NOW))) == ["a", "b", "c"]
    assert candidates_to_try(()) == ()


@pytest.mark.parametrize("reason", ["overloaded", "rate_limit"])
def test_a_busy_provider_is_asked_with_one_more_profile_before_another_model(reason):
    assert [can_rotate(reason, done) for done in range(3)] == [True, False, False]


@pytest.mark.parametrize("reason", ["auth", "auth_permanent", "billing", "usage_limit", "server"])
def test_trouble_with_an_account_goes_through_all_of_them(reason):
    assert [can_rotate(reason, done) for done in range(3)] == [True, True, True]


@pytest.mark.parametrize("reason", sorted(NEUTRAL))
def test_what_is_wrong_with_a_request_is_wrong_with_every_profile(reason):
    assert not can_rotate(reason, 0)


def test_a_pin_ends_with_its_profile_and_with_its_provider():
    assert is_valid_pin(pin("a"), "openai", KEYS)
    assert not is_valid_pin(pin("gone", "user"), "openai", KEYS)
    assert not is_valid_pin(pin("a", "user"), "anthropic", KEYS)


def test_a_pin_moves_only_away_from_a_profile_that_stays_away():
    passing = Obstacle(state="cooldown", reason="rate_limit", until=NOW)
    lasting = Obstacle(state="disabled", reason="billing", until=NOW)
    assert can_move_pin(None, "openai:b", None)
    assert not can_move_pin(pin("a"), "openai:b", None)
    assert not can_move_pin(pin("a"), "openai:b", passing)
    assert can_move_pin(pin("a"), "openai:b", lasting)
    assert not can_move_pin(pin("a", "user"), "openai:b", lasting)
    assert not can_move_pin(pin("b"), "openai:b", lasting)


PROFILES = st.lists(
    st.builds(
        profile,
        st.sampled_from("abcdefgh"),
        st.sampled_from(["api_key", "token", "oauth"]),
        expires=st.one_of(st.none(), st.integers(NOW - 5, NOW + 5)),
    ),
    unique_by=lambda each: each.id,
    max_size=8,
)
HEALTH = st.dictionaries(
    st.sampled_from([f"openai:{name}" for name in "abcdefgh"]),
    st.builds(
        lambda reason, used: after_failure(ProfileHealth(last_used=used), reason, NOW),
        st.sampled_from(["format", "auth", "billing", "rate_limit", "usage_limit"]),
        st.integers(0, 9),
    ),
)


@given(PROFILES, HEALTH, st.one_of(st.none(), st.sampled_from("abcdefgh").map(pin)))
def test_every_profile_is_a_candidate_once_and_those_that_rest_are_last(profiles, health, pinned):
    found = candidates(profiles, health=health, now=NOW, pin=pinned)
    assert sorted(names(found)) == sorted(each.id.removeprefix("openai:") for each in profiles)
    usable = [each.usable for each in found]
    assert usable == sorted(usable, reverse=True)
    ends = [each.obstacle.until for each in found if each.obstacle]
    assert ends == sorted(ends)
    shuffled = candidates(profiles[::-1], health=health, now=NOW, pin=pinned)
    assert shuffled[: usable.count(True)] == found[: usable.count(True)]
    assert [obstacle(health.get(each.profile.id, ProfileHealth()), NOW) for each in found] == [
        each.obstacle for each in found
    ]


def test_where_a_harness_has_a_login_profiles_pay_only_if_a_person_chose_one():
    own = [profile("key"), profile("me", "oauth"), profile("other", "token")]
    for chosen, paying in [
        (None, []),
        (pin("me"), []),
        (pin("me", "user"), ["me", "other"]),
        (pin("key", "user"), ["key"]),
    ]:
        assert (
            names(candidates_beside_login(candidates(own, health={}, now=NOW, pin=chosen)))
            == paying
        )
