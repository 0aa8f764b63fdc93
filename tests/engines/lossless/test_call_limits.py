from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.lossless.call_limits import (
    BreakerStatus,
    BudgetStatus,
    CallLimiter,
    CallLimits,
    LimiterStatus,
)


@dataclass
class Time:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def limiter_of(time: Time, thread: str = "t1", **limits: Any) -> CallLimiter:
    return CallLimiter(clock=time, limits=CallLimits(**limits)).for_thread(thread)


def test_five_auth_failures_in_a_row_leave_a_model_alone():
    time = Time()
    limiter = limiter_of(time)
    for _ in range(5):
        assert limiter.book_call("m") == ""
        limiter.record_auth_failure("m")
    assert limiter.book_call("m") == "the credentials of 'm' failed 5 times in a row"
    assert limiter.book_call("other") == ""


def test_an_answer_between_failures_starts_the_count_anew():
    limiter = limiter_of(Time())
    for _ in range(4):
        limiter.record_auth_failure("m")
    limiter.record_success("m")
    for _ in range(4):
        limiter.record_auth_failure("m")
    assert limiter.book_call("m") == ""


def test_all_threads_share_what_is_known_of_a_model():
    limiter = limiter_of(Time())
    for _ in range(5):
        limiter.record_auth_failure("m")
    assert limiter.for_thread("t2").book_call("m") != ""


def test_after_half_an_hour_one_trial_is_let_through():
    time = Time()
    limiter = limiter_of(time)
    for _ in range(5):
        limiter.record_auth_failure("m")
    time.now += 1_799
    assert limiter.book_call("m") != ""
    time.now += 1
    assert limiter.book_call("m") == ""
    assert limiter.book_call("m") != ""


def test_a_trial_that_fails_leaves_the_model_alone_again():
    time = Time()
    limiter = limiter_of(time)
    for _ in range(5):
        limiter.record_auth_failure("m")
    time.now += 1_800
    assert limiter.book_call("m") == ""
    limiter.record_auth_failure("m")
    time.now += 1_799
    assert limiter.book_call("m") != ""


def test_a_trial_that_succeeds_lets_every_call_through():
    time = Time()
    limiter = limiter_of(time)
    for _ in range(5):
        limiter.record_auth_failure("m")
    time.now += 1_800
    assert limiter.book_call("m") == ""
    limiter.record_success("m")
    assert [limiter.book_call("m") for _ in range(3)] == ["", "", ""]


def test_a_trial_that_never_ends_does_not_shut_the_model_out():
    time = Time()
    limiter = limiter_of(time)
    for _ in range(5):
        limiter.record_auth_failure("m")
    time.now += 1_800
    assert limiter.book_call("m") == ""
    time.now += 120
    assert limiter.book_call("m") == ""


def test_a_thread_that_asks_too_often_has_to_wait():
    time = Time()
    limiter = limiter_of(time)
    assert {limiter.book_call("m") for _ in range(24)} == {""}
    assert limiter.book_call("m") == "thread 't1' has asked for too many summaries"
    assert limiter.for_thread("t2").book_call("m") == ""
    time.now += 1_799
    assert limiter.book_call("m") != ""
    time.now += 1
    assert {limiter.book_call("m") for _ in range(24)} == {""}


def test_calls_that_lie_further_apart_are_never_refused():
    time = Time()
    limiter = limiter_of(time)
    for _ in range(200):
        assert limiter.book_call("m") == ""
        time.now += 26


def test_what_a_person_asks_for_passes_and_ends_the_waiting():
    limiter = limiter_of(Time())
    for _ in range(25):
        limiter.book_call("m")
    assert limiter.book_call("m") != ""
    assert limiter.for_thread("t1", manual=True).book_call("m") == ""
    assert limiter.book_call("m") == ""


def test_what_a_person_asks_for_does_not_reach_a_model_without_credentials():
    limiter = limiter_of(Time())
    for _ in range(5):
        limiter.record_auth_failure("m")
    assert limiter.for_thread("t1", manual=True).book_call("m") != ""


def test_the_status_tells_who_waits_and_for_how_long():
    time = Time()
    limiter = limiter_of(time, calls=2)
    limiter.record_auth_failure("m")
    for _ in range(3):
        limiter.book_call("m")
    limiter.for_thread("t2").book_call("m")
    time.now += 100
    assert limiter.status() == LimiterStatus(
        breakers=(BreakerStatus(model="m", failures=1, retry_in=0.0),),
        budgets=(
            BudgetStatus(thread="t1", calls=0, retry_in=1_700.0),
            BudgetStatus(thread="t2", calls=1, retry_in=0.0),
        ),
    )
    time.now += 1_700
    assert limiter.status().budgets == ()


def test_the_quietest_threads_are_forgotten_first():
    limiter = limiter_of(Time(), threads=2)
    for thread in ("t1", "t2", "t1", "t3"):
        limiter.for_thread(thread).book_call("m")
    assert [one.thread for one in limiter.status().budgets] == ["t1", "t3"]


steps = st.lists(
    st.tuples(
        st.sampled_from(["admit", "fail", "succeed", "manual"]),
        st.sampled_from(["m", "n"]),
        st.floats(0, 2_000),
    ),
    max_size=60,
)


@given(steps)
def test_whatever_happened_an_hour_puts_it_right(history):
    time = Time()
    limiter = limiter_of(time, calls=3, auth_failures=2)
    for step, model, later in history:
        if step == "fail":
            limiter.record_auth_failure(model)
        elif step == "succeed":
            limiter.record_success(model)
        else:
            limiter.for_thread("t1", manual=step == "manual").book_call(model)
        time.now += later
    time.now += 3_600
    assert limiter.book_call("m") == ""
    assert limiter.for_thread("t1").book_call("n") == ""
