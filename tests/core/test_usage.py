from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.usage import (
    MOST_TOKENS,
    Credits,
    InputDetails,
    OutputDetails,
    RateLimitSnapshot,
    RateLimitWindow,
    ThreadUsage,
    TokenUsage,
    WireUsage,
)


def test_reported_usage_is_read_figure_by_figure():
    data = b"""{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"x":1},
        "output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":120}"""
    wire = msgspec.json.decode(data, type=WireUsage)
    assert TokenUsage.from_wire(wire) == TokenUsage(100, 60, None, 20, 5, 120)


def test_a_missing_total_is_the_sum_and_missing_details_stay_unknown():
    assert TokenUsage.from_wire(WireUsage(input_tokens=3, output_tokens=4)) == TokenUsage(
        input_tokens=3, output_tokens=4, total_tokens=7
    )


counts = st.integers(0, 10**9)
usages = st.builds(
    TokenUsage, counts, st.none() | counts, st.none() | counts, counts, st.none() | counts, counts
)


@given(usages, usages, usages)
def test_usage_adds_up_in_any_order(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + TokenUsage() == a


def test_a_sum_knows_a_figure_once_either_side_reported_it():
    assert TokenUsage(1, 5) + TokenUsage(1) == TokenUsage(2, 5)
    assert (TokenUsage(1) + TokenUsage(1)).cached_input_tokens is None


def test_uncached_tokens_leave_out_what_was_cached():
    assert (
        TokenUsage(input_tokens=100, cached_input_tokens=60, output_tokens=7).uncached_tokens == 47
    )


@pytest.mark.parametrize(
    ("window", "used", "left"),
    [
        (None, 5, None),
        (12_000, 5, 0),
        (112_000, 0, 100),
        (112_000, 12_000, 100),
        (112_000, 62_000, 50),
        (112_000, 112_000, 0),
        (112_000, 999_999, 0),
        (12_200, 12_001, 100),
        (12_200, 12_199, 1),
        (12_200, 12_103, 49),
    ],
)
def test_the_share_of_the_window_that_is_left(window, used, left):
    usage = ThreadUsage(last=TokenUsage(total_tokens=used), context_window=window)
    assert usage.percent_left == left


def test_rate_limits_are_read_from_headers_the_default_limit_first():
    headers = {
        "X-Codex-Bengalfox-Primary-Used-Percent": "3",
        "x-codex-bengalfox-limit-name": "Bengal",
        "x-codex-primary-used-percent": "12.5",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "1700000000",
        "x-codex-secondary-used-percent": "0",
        "x-codex-credits-has-credits": "true",
        "x-codex-credits-unlimited": "False",
        "x-codex-credits-balance": "9.99",
        "content-type": "text/event-stream",
    }
    assert RateLimitSnapshot.from_headers(headers) == (
        RateLimitSnapshot(
            limit_id="codex",
            primary=RateLimitWindow(12.5, 300, 1_700_000_000),
            credits=Credits(has_credits=True, unlimited=False, balance="9.99"),
        ),
        RateLimitSnapshot(
            limit_id="codex_bengalfox", limit_name="Bengal", primary=RateLimitWindow(3.0)
        ),
    )


@pytest.mark.parametrize("text", ["", "many", "nan", "inf", "-inf"])
def test_a_header_that_is_no_number_is_passed_over(text):
    headers = {
        "x-codex-primary-used-percent": "1",
        "x-codex-primary-window-minutes": text,
        "x-codex-secondary-used-percent": text,
    }
    assert RateLimitSnapshot.from_headers(headers) == (
        RateLimitSnapshot(limit_id="codex", primary=RateLimitWindow(1.0)),
    )


def test_headers_without_limits_tell_nothing():
    assert RateLimitSnapshot.from_headers({"x-primary-used-percent": "5", "x-other": "1"}) == ()


def test_a_lie_counts_for_no_more_than_a_figure_can():
    lie = 10**300
    wire = WireUsage(
        input_tokens=lie,
        input_tokens_details=InputDetails(lie, -lie),
        output_tokens=-lie,
        output_tokens_details=OutputDetails(-1),
        total_tokens=lie,
    )
    assert TokenUsage.from_wire(wire) == TokenUsage(MOST_TOKENS, MOST_TOKENS, 0, 0, 0, MOST_TOKENS)


def test_a_limit_beyond_all_measure_is_unknown():
    headers = {
        "x-codex-primary-used-percent": "5",
        "x-codex-primary-window-minutes": "1e308",
        "x-codex-primary-reset-at": "-1e308",
    }
    (snapshot,) = RateLimitSnapshot.from_headers(headers)
    assert snapshot.primary == RateLimitWindow(5.0)
