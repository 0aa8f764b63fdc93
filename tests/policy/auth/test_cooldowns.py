from __future__ import annotations

from functools import reduce
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.auth.cooldowns import (
    NEUTRAL,
    Obstacle,
    ProfileHealth,
    RateLimit,
    Reason,
    after_failure,
    after_success,
    obstacle,
)

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
T = 1_000_000_000_000

REASONS = get_args(Reason)


def spans(reason: Reason, times: int) -> list[int]:
    """How long a profile rests after each of several failures at one moment."""
    found, health = [], ProfileHealth()
    for _ in range(times):
        health = after_failure(health, reason, T)
        held = obstacle(health, T)
        assert held is not None
        found.append(held.until - T)
    return found


@pytest.mark.parametrize("reason", ["auth", "overloaded", "server", "unknown"])
def test_a_failing_profile_rests_for_half_a_minute_a_minute_and_then_five(reason):
    assert spans(reason, 5) == [30 * SECOND, 60 * SECOND, *[300 * SECOND] * 3]


def test_a_rate_limit_doubles_from_half_a_minute_to_a_day():
    assert spans("rate_limit", 4) == [30 * SECOND, 60 * SECOND, 120 * SECOND, 240 * SECOND]
    assert spans("rate_limit", 40)[-1] == DAY


def test_an_unpaid_bill_disables_for_ten_minutes_and_doubles_to_a_day():
    assert spans("billing", 3) == [10 * MINUTE, 20 * MINUTE, 40 * MINUTE]
    assert spans("billing", 40)[-1] == DAY


def test_a_dead_secret_disables_for_ten_minutes_and_doubles_to_an_hour():
    expected = [10 * MINUTE, 20 * MINUTE, 40 * MINUTE, HOUR, HOUR]
    assert spans("auth_permanent", 5) == expected


@pytest.mark.parametrize("reason", sorted(NEUTRAL))
def test_what_says_nothing_about_a_profile_leaves_it_as_it_was(reason):
    before = after_failure(ProfileHealth(last_used=3), "auth", T)
    assert after_failure(before, reason, T + 1, retry_after=99.0) == before


def test_a_rate_limit_on_one_model_leaves_its_siblings_usable():
    health = after_failure(ProfileHealth(), "rate_limit", T, model="large")
    held = Obstacle(state="cooldown", reason="rate_limit", until=T + 30 * SECOND)
    assert obstacle(health, T, "large") == held
    assert obstacle(health, T, "small") is None
    assert obstacle(after_failure(health, "billing", T, model="large"), T, "small") == Obstacle(
        state="disabled", reason="billing", until=T + 10 * MINUTE
    )


def test_a_usage_limit_blocks_every_model_until_it_resets():
    health = after_failure(ProfileHealth(), "usage_limit", T, model="large", retry_after=7200.0)
    blocked = Obstacle(state="blocked", reason="usage_limit", until=T + 2 * HOUR)
    assert (obstacle(health, T, "large"), obstacle(health, T, "small")) == (blocked, blocked)
    assert obstacle(health, T + 2 * HOUR, "large") is None


def test_a_usage_limit_that_does_not_say_when_it_resets_is_tried_again_soon():
    assert spans("usage_limit", 2) == [30 * SECOND, 60 * SECOND]


@pytest.mark.parametrize("said", [float("nan"), float("inf"), -5.0, 0.0, None])
def test_nonsense_about_when_to_come_back_counts_as_nothing(said):
    health = after_failure(ProfileHealth(), "rate_limit", T, retry_after=said)
    assert health.limits == {"": RateLimit(T + 30 * SECOND)}


def test_a_server_cannot_keep_a_profile_away_for_ever():
    limited = after_failure(ProfileHealth(), "rate_limit", T, retry_after=1e12)
    blocked = after_failure(ProfileHealth(), "usage_limit", T, retry_after=1e12)
    assert limited.limits[""].until == T + DAY
    assert blocked.blocked_until == T + 31 * DAY


def test_the_wait_that_a_server_asks_for_is_kept_when_it_is_longer_than_ours():
    assert (
        after_failure(ProfileHealth(), "rate_limit", T, retry_after=90.0).limits[""].until
        == T + 90 * SECOND
    )
    assert (
        after_failure(ProfileHealth(), "overloaded", T, retry_after=90.0).cooldown_until
        == T + 90 * SECOND
    )


def test_the_ladder_starts_anew_when_a_cooldown_has_run_out():
    health = after_failure(after_failure(ProfileHealth(), "auth", T), "auth", T)
    again = after_failure(health, "auth", health.cooldown_until)
    assert (again.errors, again.cooldown_until - health.cooldown_until) == (1, 30 * SECOND)


def test_failures_a_day_apart_do_not_add_up():
    health = after_failure(after_failure(ProfileHealth(), "billing", T), "billing", T)
    later = health.disabled_until + DAY + 1
    assert after_failure(health, "billing", later).disabled_until == later + 10 * MINUTE


def test_a_bill_that_is_still_unpaid_when_it_is_tried_again_disables_for_longer():
    health = after_failure(ProfileHealth(), "billing", T)
    again = after_failure(health, "billing", health.disabled_until)
    assert again.disabled_until - health.disabled_until == 20 * MINUTE


def test_an_answer_clears_what_stood_in_the_way():
    reasons: list[Reason] = ["auth", "billing", "usage_limit"]
    health = reduce(
        lambda before, reason: after_failure(before, reason, T), reasons, ProfileHealth()
    )
    assert after_success(health, T + 5) == ProfileHealth(last_used=T + 5, last_failure=T)


def test_an_answer_of_one_model_leaves_the_limit_of_another():
    health = after_failure(
        after_failure(ProfileHealth(), "rate_limit", T, model="a"), "rate_limit", T, model="b"
    )
    after = after_success(health, T + 1, model="a")
    assert (obstacle(after, T + 1, "a"), after.limits) == (None, {"b": RateLimit(T + 30 * SECOND)})


def test_an_answer_that_is_older_than_a_failure_does_not_undo_it():
    health = after_failure(ProfileHealth(), "billing", T)
    after = after_success(health, T + 9, began=T - 1)
    assert (after.last_used, obstacle(after, T + 9)) == (T + 9, obstacle(health, T + 9))
    assert obstacle(after_success(health, T + 9, began=T), T + 9) is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from([*REASONS, "success"]),
        st.sampled_from(["", "large", "small"]),
        st.integers(0, 3 * DAY),
        st.one_of(st.none(), st.floats()),
    ),
    max_size=25,
)


@given(STEPS)
def test_whatever_happens_a_profile_is_back_within_the_longest_limit(steps):
    health, now = ProfileHealth(), T
    for what, model, passed, retry_after in steps:
        now += passed
        before = obstacle(health, now, model)
        if what == "success":
            health = after_success(health, now, model=model)
            assert obstacle(health, now, model) is None
        else:
            health = after_failure(health, what, now, model=model, retry_after=retry_after)
            after = obstacle(health, now, model)
            if what in NEUTRAL:
                assert after == before
            else:
                assert after is not None
                assert before is None or after.until >= before.until
    assert obstacle(health, now + 31 * DAY, "large") is None
    assert all(limit.until > T for limit in health.limits.values())
