from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.contract import (
    AuthFailed,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    RateLimited,
    StreamCut,
)
from treadle.policy.failures import Failure, failure_of, named_failure
from treadle.policy.fallback import Attempt, Chain, Tried
from treadle.policy.outcome import Accepted, Facts, Fallback, Final, classify, kind

BUSY = Failure(reason="overloaded", message="busy", code="server_is_overloaded")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Facts(), "empty_result"),
        (Facts(reasoned=True), "reasoning_only_result"),
        (Facts(planned=True), "planning_only_result"),
        (Facts(reasoned=True, planned=True), "planning_only_result"),
        (Facts(text="  \n"), "empty_result"),
    ],
)
def test_an_answer_that_says_nothing_is_worth_another_candidate(facts, expected):
    verdict = classify(facts)
    assert isinstance(verdict, Fallback)
    assert (verdict.reason, verdict.code) == ("format", expected)


@pytest.mark.parametrize("text", ["done", "NO_REPLY", '{"action":"NO_REPLY"}'])
def test_what_was_said_is_the_answer_even_if_it_asks_for_silence(text):
    assert classify(Facts(text=text)) == Accepted()
    assert kind(Facts(text=text)) == "ok"


@pytest.mark.parametrize("done", [{"effects": ("exec_command",)}, {"sent": ("message",)}])
def test_after_something_was_done_no_other_candidate_is_tried(done):
    assert classify(Facts(**done)) == Accepted()
    assert isinstance(classify(Facts(failure=BUSY, **done)), Final)


@pytest.mark.parametrize(
    "facts",
    [
        Facts(aborted=True, failure=BUSY),
        Facts(blocked=True),
        Facts(text="half an ans", failure=BUSY),
        Facts(failure=Failure(reason="context_overflow", message="too long")),
    ],
)
def test_some_ends_are_final(facts):
    assert isinstance(classify(facts), Final)


def test_a_provider_that_fails_is_a_reason_to_ask_another():
    assert classify(Facts(failure=BUSY)) == Fallback("overloaded", "server_is_overloaded", "busy")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ContextOverflow("long"), "context_overflow"),
        (AuthFailed("no", status=401), "auth"),
        (AuthFailed("no", code="invalid_api_key"), "auth_permanent"),
        (AuthFailed("pay", code="insufficient_quota"), "billing"),
        (AuthFailed("pay", status=402), "billing"),
        (RateLimited("slow"), "rate_limit"),
        (RateLimited("spent", code="usage_limit_reached", retry_after=60), "usage_limit"),
        (InvalidRequest("bad"), "format"),
        (InvalidRequest("who", code="model_not_found"), "model_not_found"),
        (StreamCut("cut"), "timeout"),
        (ModelError("busy", status=503), "overloaded"),
        (ModelError("busy", code="slow_down", status=500), "overloaded"),
        (ModelError("oops", status=500), "server"),
        (ModelError("slow", status=408), "timeout"),
        (ModelError("gone", retryable=True), "timeout"),
        (ModelError("odd"), "unknown"),
        (ValueError("a fault of ours"), "unknown"),
        (KeyboardInterrupt(), "unknown"),
    ],
)
def test_every_error_has_a_reason(error, reason):
    found = failure_of(error)
    assert found.reason == reason
    assert found.message


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("contextWindowExceeded", None, "context_overflow"),
        ("usageLimitExceeded", None, "usage_limit"),
        ("serverOverloaded", None, "overloaded"),
        ("responseTooManyFailedAttempts", 429, "rate_limit"),
        ("other", 401, "auth"),
        ("other", 429, "rate_limit"),
        ("somethingNew", None, "unknown"),
    ],
)
def test_what_codex_calls_failures_has_the_same_reasons(name, status, reason):
    assert named_failure(name, "it failed", status).reason == reason


def test_another_account_is_tried_before_another_model():
    chain: Chain | None = Chain(models=("a", "b")).with_profiles(("a:1", "a:2"))
    assert chain is not None
    assert chain.present == Attempt(model="a", profile="a:1")
    chain = chain.after(Fallback("auth", "401"))
    assert chain is not None
    assert chain.present == Attempt(model="a", profile="a:2")
    chain = chain.after(Fallback("auth", "401", "no"))
    assert chain is not None
    assert chain.with_profiles(("b:1",)).present == Attempt(model="b", profile="b:1", final=True)
    assert chain.tried == (
        Tried(model="a", profile="a:1", reason="auth", code="401"),
        Tried(model="a", profile="a:2", reason="auth", code="401", error="no"),
    )


@pytest.mark.parametrize(
    ("reason", "accounts"), [("overloaded", 2), ("rate_limit", 2), ("auth", 3)]
)
def test_a_busy_provider_is_asked_through_one_more_account_only(reason, accounts):
    chain: Chain | None = Chain(models=("a", "b")).with_profiles(("1", "2", "3"))
    tried = 0
    while chain is not None and chain.model == "a":
        tried += 1
        chain = chain.after(Fallback(reason, ""))
    assert tried == accounts


@pytest.mark.parametrize("reason", ["format", "model_not_found", "timeout"])
def test_what_is_wrong_with_a_request_is_wrong_with_every_account(reason):
    chain = Chain(models=("a", "b")).with_profiles(("1", "2"))
    moved = chain.after(Fallback(reason, ""))
    assert moved is not None
    assert moved.model == "b"


def test_a_model_that_the_user_chose_is_the_only_one():
    chain = Chain(models=("a", "b"), strict=True).with_profiles(("1",))
    assert chain.present.final
    assert chain.after(Fallback("server", "")) is None


reasons = st.sampled_from(["auth", "rate_limit", "overloaded", "format", "server", "billing"])


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
    st.integers(0, 3),
    st.lists(reasons, min_size=20, max_size=20),
)
def test_a_chain_ends_and_tries_nobody_twice(models, accounts, why):
    profiles = tuple(map(str, range(accounts)))
    chain: Chain | None = Chain(models=tuple(models)).with_profiles(profiles)
    seen: list[Attempt] = []
    for reason in why:
        assert chain is not None
        seen.append(chain.present)
        verdict = Fallback(reason, "code", "said")
        following = chain.after(verdict)
        if following is None:
            told = chain.tried_after(verdict)
            assert [(each.model, each.profile) for each in told] == [
                (each.model, each.profile) for each in seen
            ]
            assert told[-1].error == "said"
            break
        chain = following if following.profiles else following.with_profiles(profiles)
    else:
        raise AssertionError("the chain does not end")
    assert len({(each.model, each.profile) for each in seen}) == len(seen)
