"""Skills on Codex: told by us, and never by both."""

from __future__ import annotations

from tests.skills.scenes import write_skill
from treadle import SkillRules
from treadle.core.loopback import LoopbackRequest
from treadle.testing.script import Answer, Call

from .scenes import hear, open_stage
from .view_items import add_weather_skill

RULES = SkillRules(packages=False)


def told(request: LoopbackRequest, words: str) -> int:
    return request.body.decode().count(words)


async def test_skills_are_told_by_us_and_loaded_by_our_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    own = tmp_path / "home" / ".agents" / "skills"
    write_skill(own, "alpha", "Alpha's use.", body="Alpha's text.")
    write_skill(own, "beta", "Beta's use.", body="Beta's text.")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    write_skill(tmp_path / "project" / ".agents" / "skills", "evil", body="Evil text.")
    add_weather_skill(tmp_path)
    asks = Answer(calls=(Call(name="skill", arguments={"name": "beta"}),))
    async with (
        open_stage(tmp_path, Answer(text="one"), asks) as stage,
        stage.thread(skills=RULES) as thread,
    ):
        await hear(thread, "Use $alpha.")
        await hear(thread, "And on.")
        write_skill(own, "gamma", "Gamma's use.", body="Gamma's text.")
        await hear(thread, "Use $gamma, $alpha, $evil and $weather.")
        first, last = stage.requests[0], stage.requests[-1]
        assert [told(first, each) for each in ("<available_skills>", "Alpha's use.")] == [1, 1]
        assert told(first, "Alpha's text.") == 1
        texts = ("Alpha's text.", "Beta's text.", "Gamma's text.", "Gamma's use.")
        assert [told(last, each) for each in texts] == [1, 1, 1, 1]
        assert [told(last, each) for each in ("<skills_instructions>", "Evil text.")] == [0, 0]
        # One in the home of Codex is not known to us, and told by nobody.
        assert told(last, "Look out of the window.") == 0
        for before, after in zip(stage.requests, stage.requests[1:], strict=False):
            sent = before.payload["input"]
            assert after.payload["input"][: len(sent)] == sent
