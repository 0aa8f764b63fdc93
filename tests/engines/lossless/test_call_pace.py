from __future__ import annotations

import asyncio
from itertools import pairwise

from treadle.engines.lossless.call_limits import CallLimiter
from treadle.engines.lossless.call_pace import CallPace
from treadle.engines.lossless.writing.summarise import summarise

from .samples import SAMPLE


def test_a_model_of_which_nothing_is_known_has_the_usual_time():
    assert CallPace().limit("new", 100_000, 2_000) == 60.0


def test_a_slow_model_gets_the_time_it_needs_and_a_fast_one_no_more_than_before():
    pace = CallPace()
    # 30 tokens a second to read, 10 to write.
    pace.record("slow", 6_000, 600, 260.0, answered=True)
    assert 700 < pace.limit("slow", 6_000, 600) < 900
    assert pace.limit("slow", 60_000, 600) == pace.most
    pace.record("fast", 6_000, 600, 4.0, answered=True)
    assert pace.limit("fast", 6_000, 600) == 60.0


def test_a_call_that_ran_out_of_time_gives_the_next_one_more():
    pace, limits = CallPace(), list[float]()
    for _ in range(5):
        limits.append(pace.limit("slow", 6_000, 600))
        pace.record("slow", 6_000, 600, limits[-1], answered=False)
    assert limits[0] == 60.0
    assert all(later > 2 * before for before, later in pairwise(limits[:4]))
    assert pace.limit("slow", 6_000, 600) == pace.most


def test_a_model_that_became_fast_is_believed_after_a_while():
    pace = CallPace()
    pace.record("model", 6_000, 600, 300.0, answered=True)
    for _ in range(8):
        pace.record("model", 6_000, 600, 3.0, answered=True)
    assert pace.limit("model", 6_000, 600) == 60.0


class Sleeper:
    """A model that is slow by a clock of its own."""

    purpose = "context-engine.compaction"

    def __init__(self) -> None:
        self.now = 0.0

    async def __call__(self, prompt: str, *, items: object = (), instructions: str = "") -> str:
        assert prompt
        assert instructions
        assert not items
        self.now += 200.0
        await asyncio.sleep(0)
        return "Goal: mend src/app/parser.py; see tests/test_parser.py."


async def test_writing_a_summary_measures_the_model():
    model = Sleeper()
    pace = CallPace(clock=lambda: model.now)
    await summarise(SAMPLE, complete=model, model="m", target=400, limiter=CallLimiter(), pace=pace)
    assert pace.limit("m", 2_000, 400) > 200.0
