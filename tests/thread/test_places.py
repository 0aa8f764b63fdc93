from __future__ import annotations

from treadle import Thread, TurnCompleted
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer


async def test_home_and_directory_may_be_texts(tmp_path):
    model = ScriptedModel([Answer(text="Done.")])
    home = tmp_path / "home"
    async with Thread.open(model=model, cwd=str(tmp_path), home=str(home)) as thread:
        events = [event async for event in thread.run("hi")]
    await model.close()
    assert isinstance(events[-1], TurnCompleted)
    assert (home / "log.db").is_file()
