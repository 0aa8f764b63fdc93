from __future__ import annotations

import msgspec
import pytest

from treadle.models.contract import (
    AuthFailed,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    RateLimited,
)
from treadle.models.provider_errors import (
    ErrorBody,
    error_for_status,
    error_in_stream,
    parse_error_body,
)
from treadle.policy.failures import failure_of

OPENAI = '{{"error":{{"message":"m","type":"t","code":"{}"}}}}'


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, OPENAI.format("context_length_exceeded"), ContextOverflow, False),
        (400, '{"error":{"code":400,"type":"exceed_context_size_error"}}', ContextOverflow, False),
        (400, '{"object":"error","message":"maximum context length is 4"}', ContextOverflow, False),
        (500, OPENAI.format("context_length_exceeded"), ContextOverflow, False),
        (429, '{"message":"Too many tokens, please wait"}', RateLimited, True),
        (413, "<html>too large</html>", ContextOverflow, False),
        (400, OPENAI.format("invalid_image"), InvalidRequest, False),
        (404, '{"error":"model \\"x\\" not found"}', InvalidRequest, False),
        (422, '{"detail":[{"loc":["body"],"msg":"field required"}]}', InvalidRequest, False),
        (401, OPENAI.format("invalid_api_key"), AuthFailed, False),
        (403, "", AuthFailed, False),
        (429, OPENAI.format("insufficient_quota"), AuthFailed, False),
        (429, OPENAI.format("rate_limit_exceeded"), RateLimited, True),
        (500, "", ModelError, True),
        (503, OPENAI.format("server_is_overloaded"), ModelError, False),
        (529, '{"type":"error","error":{"type":"overloaded_error"}}', ModelError, True),
        (408, "", ModelError, True),
    ],
)
def test_a_status_and_its_body_have_one_meaning(
    status: int, body: str, kind: type[ModelError], retryable: bool
):
    error = error_for_status(status, {"request-id": "req_1"}, body.encode())
    assert (type(error), error.retryable, error.status) == (kind, retryable, status)
    assert error.request_id == "req_1"


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("context_length_exceeded", ContextOverflow, False),
        ("insufficient_quota", AuthFailed, False),
        ("invalid_prompt", InvalidRequest, False),
        ("bio_policy", InvalidRequest, False),
        ("server_is_overloaded", ModelError, False),
        ("slow_down", ModelError, False),
        ("overloaded_error", ModelError, True),
        ("rate_limit_exceeded", RateLimited, True),
        ("something_new", ModelError, True),
    ],
)
def test_a_failure_inside_a_stream_has_one_meaning(
    code: str, kind: type[ModelError], retryable: bool
):
    error = error_in_stream(ErrorBody("words", code))
    assert (type(error), error.retryable, error.code) == (kind, retryable, code)
    assert "words" in str(error)


def test_a_rate_limit_inside_a_stream_says_when_in_words():
    said = ErrorBody("Please try again in 1.5s.", "rate_limit_exceeded")
    assert error_in_stream(said).retry_after == 1.5


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "250"}, 0.25),
        (
            {
                "retry-after": "Sun, 15 Nov 2026 10:00:30 GMT",
                "date": "Sun, 15 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "soon"}, None),
    ],
)
def test_the_wait_is_read_in_every_spelling(headers: dict[str, str], seconds: float | None):
    error = error_for_status(429, headers, b"")
    assert (error.retry_after, error.retryable) == (seconds, True)


def test_a_used_up_plan_says_when_it_resets_and_is_not_tried_again():
    body = {"error": {"type": "usage_limit_reached", "message": "x", "resets_in_seconds": 60}}
    error = error_for_status(429, {"retry-after": "1"}, msgspec.json.encode(body))
    assert (type(error), error.retry_after, error.retryable) == (RateLimited, 60.0, False)


def test_long_bodies_are_quoted_in_part():
    said = parse_error_body(b"<html>" + b"x" * 100_000)
    assert len(said.message) < 600


@pytest.mark.parametrize("wish", ["9" * 400, "1e308", "inf", "nan", "-inf", "-5", "\u0663"])
def test_a_wait_that_nobody_can_mean_is_none(wish: str):
    waits = {
        error_for_status(429, {"retry-after": wish}, b"").retry_after,
        error_for_status(503, {"retry-after-ms": wish}, b"").retry_after,
        error_in_stream(ErrorBody(f"try again in {wish}s", "rate_limit_exceeded")).retry_after,
    }
    assert waits <= {None, 0.0, 3.0, 0.003}


def test_a_limit_that_resets_in_an_eternity_does_not_say_when():
    body = b'{"error":{"code":"usage_limit_reached","resets_in_seconds":%b}}'
    assert parse_error_body(body % (b"9" * 400)).resets_in is None
    assert parse_error_body(body % b"60").resets_in == 60.0


def test_dates_at_the_ends_of_time_are_no_waits():
    headers = {
        "retry-after": "Fri, 31 Dec 9999 23:59:59 -2359",
        "date": "Mon, 01 Jan 0001 00:00:00 +2359",
    }
    assert error_for_status(503, headers, b"").retry_after is None


ANTHROPIC = '{"type":"error","error":{"type":"invalid_request_error","message":"%s"}}'


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, ANTHROPIC % "Your credit balance is too low to access the API.", "billing_error"),
        (402, '{"error":{"message":"Insufficient Balance"}}', "billing_error"),
        (402, "", "billing_error"),
        (403, '{"error":"Your team is out of credits"}', "billing_error"),
        (429, OPENAI.format("insufficient_quota"), "insufficient_quota"),
    ],
)
def test_an_account_that_cannot_pay_is_told_as_such_with_what_to_do(status, body, code):
    error = error_for_status(status, {}, body.encode())
    assert isinstance(error, AuthFailed)
    assert (error.code, failure_of(error).reason) == (code, "billing")
    assert str(error).startswith("the account cannot pay for the request")
    assert "add credit" in str(error)


def test_a_limit_of_the_minute_that_talks_of_billing_is_a_limit():
    message = "You exceeded your current quota, please check your plan and billing details."
    body = msgspec.json.encode({"error": {"code": 429, "message": message}})
    assert isinstance(error_for_status(429, {}, body), RateLimited)
