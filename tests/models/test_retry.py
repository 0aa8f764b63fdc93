from __future__ import annotations

import pytest

from treadle.models.contract import ModelError, RateLimited
from treadle.models.retry import Backoff


def recorded(patience: float = 60.0) -> tuple[Backoff, list[float]]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return Backoff(sleep=sleep, random=lambda: 0.5, longest_wait=patience), waits


async def attempts(backoff: Backoff, *errors: ModelError) -> int:
    left, asked = list(errors), 0

    async def call() -> int:
        nonlocal asked
        asked += 1
        if left:
            raise left.pop(0)
        return asked

    return await backoff.run(call)


async def test_waits_double_from_200_milliseconds():
    backoff, waits = recorded()
    failures = [ModelError("x", status=500) for _ in range(4)]
    assert await attempts(backoff, *failures) == 5
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6])


async def test_the_fifth_failure_is_raised():
    backoff, waits = recorded()
    failures = [ModelError(str(n), status=503) for n in range(5)]
    with pytest.raises(ModelError, match="4"):
        await attempts(backoff, *failures)
    assert len(waits) == 4


async def test_jitter_stays_within_a_tenth():
    lowest, highest = Backoff(random=lambda: 0.0), Backoff(random=lambda: 1.0)
    assert (lowest.delay(0), highest.delay(0)) == pytest.approx((0.18, 0.22))
    assert (lowest.delay(3), highest.delay(3)) == pytest.approx((1.44, 1.76))


async def test_the_server_says_how_long_to_wait():
    backoff, waits = recorded()
    limited = RateLimited("x", retryable=True, retry_after=7.5, status=429)
    assert await attempts(backoff, limited) == 2
    assert waits == [7.5]


async def test_nobody_waits_longer_than_their_patience():
    backoff, waits = recorded(patience=10.0)
    limited = RateLimited("x", retryable=True, retry_after=3600.0, status=429)
    with pytest.raises(RateLimited):
        await attempts(backoff, limited)
    assert waits == []


async def test_what_cannot_pass_is_raised_at_once():
    backoff, waits = recorded()
    with pytest.raises(ModelError):
        await attempts(backoff, ModelError("x", status=400))
    with pytest.raises(RateLimited):
        await attempts(backoff, RateLimited("x", status=429))
    assert waits == []
