"""The model can be told how full its window is: in steps, by difference, and only if asked."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle.core.items import Message, text_of
from treadle.prompt.window_use import window_level
from treadle.testing.script import Answer, Tokens
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool

WINDOW = "context_window = 10000\neffective_window_percent = 100\ninstructions = 'general'"


@tool
async def look() -> str:
    """Looks."""
    return "seen"


def told(model: ScriptedModel) -> list[str]:
    """What each request says of the window, without markers."""
    return [
        " ".join(
            part.split("% of your")[0]
            for part in request.body.decode().split("About ")[1:]
            if "% of your context window" in part
        )
        for request in model.requests
    ]


def steps(*tokens: int) -> list[Answer]:
    return [
        *(Answer(calls=(call("look"),), usage=Tokens(input=each, output=0)) for each in tokens),
        Answer(text="Done.", usage=Tokens(input=tokens[-1], output=0)),
    ]


async def test_the_model_is_told_when_its_window_fills_by_another_step(tmp_path: Path):
    model = scripted(*steps(3_000, 3_100, 5_500, 5_600, 7_600))
    async with open_thread(tmp_path, model, tools=(look,), facts=WINDOW, window_use=True) as thread:
        await hear(thread, "look around")
        assert told(model) == ["", "25", "25", "25 50", "25 50", "25 50 75"]
        bodies = [request.body for request in model.requests]
        for before, after in pairwise(bodies):
            assert after.startswith(before[: before.rindex(b"]")])
        *_, newest = (row.item for row in thread.view.rows if row.shape.role == "developer")
        assert isinstance(newest, Message)
        assert "a summary stands for the older part" in text_of(newest.content)


async def test_the_model_is_not_told_where_nobody_asked_for_it(tmp_path: Path):
    model = scripted(*steps(7_000, 7_600))
    async with open_thread(tmp_path, model, tools=(look,), facts=WINDOW) as thread:
        await hear(thread, "look around")
    assert told(model) == ["", "", ""]


async def test_after_a_compaction_only_what_is_used_then_is_told(tmp_path: Path):
    model = scripted(*steps(5_500, 7_600), Answer(text="A summary."), Answer(text="Yes."))
    async with open_thread(tmp_path, model, tools=(look,), facts=WINDOW, window_use=True) as thread:
        await hear(thread, "look around " + "and around " * 300)
        await thread.compact()
        await hear(thread, "did you?")
    # Instructions and the user's own words still take a quarter of so small a window.
    assert told(model)[-1] == "25"


@pytest.mark.parametrize(
    ("occupied", "window", "level"),
    [(0, 100, 0), (24, 100, 0), (25, 100, 25), (79, 100, 75), (99, 100, 90), (5, None, 0)],
)
def test_the_window_is_told_in_quarters_then_in_tenths(
    occupied: int, window: int | None, level: int
):
    assert window_level(occupied, window) == level
