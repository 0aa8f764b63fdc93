from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.lossless.guards import (
    BreakerStatus,
    GuardLimits,
    Guards,
    GuardStatus,
    SpendStatus,
)


@dataclass
class Time:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def guards(time: Time, thread: str = "t1", **limits: Any) -> Guards:
    return Guards(clock=time, limits=GuardLimits(**limits)).of(thread)


def test_five_auth_failures_in_a_row_leave_a_model_alone():
    time = Time()
    guard = guards(time)
    for _ in range(5):
        assert guard.admit("m") == ""
        guard.auth_failed("m")
    assert guard.admit("m") == "the credentials of 'm' failed 5 times in a row"
    assert guard.admit("other") == ""


def test_an_answer_between_failures_starts_the_count_anew():
    guard = guards(Time())
    for _ in range(4):
        guard.auth_failed("m")
    guard.succeeded("m")
    for _ in range(4):
        guard.auth_failed("m")
    assert guard.admit("m") == ""


def test_all_threads_share_what_is_known_of_a_model():
    guard = guards(Time())
    for _ in range(5):
        guard.auth_failed("m")
    assert guard.of("t2").admit("m") != ""


def test_after_half_an_hour_one_trial_is_let_through():
    time = Time()
    guard = guards(time)
    for _ in range(5):
        guard.auth_failed("m")
    time.now += 1_799
    assert guard.admit("m") != ""
    time.now += 1
    assert guard.admit("m") == ""
    assert guard.admit("m") != ""


def test_a_trial_that_fails_leaves_the_model_alone_again():
    time = Time()
    guard = guards(time)
    for _ in range(5):
        guard.auth_failed("m")
    time.now += 1_800
    assert guard.admit("m") == ""
    guard.auth_failed("m")
    time.now += 1_799
    assert guard.admit("m") != ""


def test_a_trial_that_succeeds_lets_every_call_through():
    time = Time()
    guard = guards(time)
    for _ in range(5):
        guard.auth_failed("m")
    time.now += 1_800
    assert guard.admit("m") == ""
    guard.succeeded("m")
    assert [guard.admit("m") for _ in range(3)] == ["", "", ""]


def test_a_trial_that_never_ends_does_not_shut_the_model_out():
    time = Time()
    guard = guards(time)
    for _ in range(5):
        guard.auth_failed("m")
    time.now += 1_800
    assert guard.admit("m") == ""
    time.now += 120
    assert guard.admit("m") == ""


def test_a_thread_that_asks_too_often_has_to_wait():
    time = Time()
    guard = guards(time)
    assert {guard.admit("m") for _ in range(24)} == {""}
    assert guard.admit("m") == "thread 't1' has asked for too many summaries"
    assert guard.of("t2").admit("m") == ""
    time.now += 1_799
    assert guard.admit("m") != ""
    time.now += 1
    assert {guard.admit("m") for _ in range(24)} == {""}


def test_calls_that_lie_further_apart_are_never_refused():
    time = Time()
    guard = guards(time)
    for _ in range(200):
        assert guard.admit("m") == ""
        time.now += 26


def test_what_a_person_asks_for_passes_and_ends_the_waiting():
    guard = guards(Time())
    for _ in range(25):
        guard.admit("m")
    assert guard.admit("m") != ""
    assert guard.of("t1", manual=True).admit("m") == ""
    assert guard.admit("m") == ""


def test_what_a_person_asks_for_does_not_reach_a_model_without_credentials():
    guard = guards(Time())
    for _ in range(5):
        guard.auth_failed("m")
    assert guard.of("t1", manual=True).admit("m") != ""


def test_the_status_tells_who_waits_and_for_how_long():
    time = Time()
    guard = guards(time, calls=2)
    guard.auth_failed("m")
    for _ in range(3):
        guard.admit("m")
    guard.of("t2").admit("m")
    time.now += 100
    assert guard.status() == GuardStatus(
        breakers=(BreakerStatus(model="m", failures=1, retry_in=0.0),),
        spending=(
            SpendStatus(thread="t1", calls=0, retry_in=1_700.0),
            SpendStatus(thread="t2", calls=1, retry_in=0.0),
        ),
    )
    time.now += 1_700
    assert guard.status().spending == ()


def test_the_quietest_threads_are_forgotten_first():
    guard = guards(Time(), threads=2)
    for thread in ("t1", "t2", "t1", "t3"):
        guard.of(thread).admit("m")
    assert [one.thread for one in guard.status().spending] == ["t1", "t3"]


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
    guard = guards(time, calls=3, auth_failures=2)
    for step, model, later in history:
        if step == "fail":
            guard.auth_failed(model)
        elif step == "succeed":
            guard.succeeded(model)
        else:
            guard.of("t1", manual=step == "manual").admit(model)
        time.now += later
    time.now += 3_600
    assert guard.admit("m") == ""
    assert guard.of("t1").admit("n") == ""
