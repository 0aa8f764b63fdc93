from __future__ import annotations

import pytest

from treadle import Thread, tool
from treadle.core.errors import ConfigError
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer


@tool(name="look")
async def look_left() -> str:
    """Looks left."""
    return "left"


@tool(name="look")
async def look_right() -> str:
    """Looks right."""
    return "right"


async def test_two_tools_with_one_name_are_refused_before_anything_is_asked(tmp_path):
    model = ScriptedModel([Answer(text="Done.")])
    with pytest.raises(ConfigError, match="two tools are called 'look'; give one of them another"):
        async with Thread.open(
            model=model, cwd=tmp_path, home=tmp_path / "home", tools=(look_left, look_right)
        ):
            pytest.fail("it was opened")
    assert model.requests == []
    await model.close()
