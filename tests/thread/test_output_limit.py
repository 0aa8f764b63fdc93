"""A limit for the results of tools holds everywhere, also where it is higher than the model's."""

from __future__ import annotations

import pytest

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

LIKE = 'like = "gpt-5.5"'
LINES = 20_000
"""More than ten thousand tokens, fewer than thirty thousand."""


@tool
async def shout() -> str:
    """Shouts."""
    return "".join(f"{n}\n" for n in range(1, LINES))


@pytest.mark.parametrize("own", [True, False], ids=["host", "built-in"])
async def test_a_raised_limit_is_not_undone_by_the_models_own(tmp_path, own):
    wishes = {"max_output_tokens": 30_000, "yield_time_ms": 30_000, "login": False}
    asked = call("shout") if own else call("exec_command", cmd=f"seq 1 {LINES - 1}", **wishes)
    model = scripted(Answer(calls=(asked,)), Answer(text="ok"))
    tools = (shout,) if own else None
    async with open_thread(tmp_path, model, tools=tools, facts=LIKE, output_limit=30_000) as thread:
        await hear(thread, "go")
    (output,) = [each for each in model.requests[-1].payload["input"] if "output" in each]
    assert f"\n{LINES // 2}\n" in output["output"]
    assert "truncated" not in output["output"]


async def test_a_lowered_limit_holds_for_the_tools_of_a_host_too(tmp_path):
    model = scripted(Answer(calls=(call("shout"),)), Answer(text="ok"))
    async with open_thread(tmp_path, model, tools=(shout,), facts=LIKE, output_limit=500) as thread:
        await hear(thread, "go")
    (output,) = [each for each in model.requests[-1].payload["input"] if "output" in each]
    assert len(output["output"]) < 4 * 500 * 1.3
    assert output["output"].count("Warning: truncated") == 1
