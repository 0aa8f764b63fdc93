"""Drivers of skills: turns on a harness, beside folders with a `SKILL.md`.

Owns how the skills of a row are written and what is observed in its requests. Invariant: a
request is observed whole, also what a harness says in it by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....harness.events import ApprovalRequested, Event, TurnCompleted
from ....sandbox.approvals import No
from ....skills.rules import SkillRules
from ....skills.skill_library import SkillLibrary
from ....skills.skill_trust import trust_skills
from ....thread.thread import Thread
from ..fixture import MatrixFixture, answers
from .sent_requests import extends

__all__ = ["turns"]


async def turns(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Run a turn for each act, with the skills that there are then."""
    assert fixture is not None
    fixture.play(*answers(given))
    project, own = fixture.make_directory(), fixture.make_directory()
    (project / ".git").mkdir()
    rules = SkillRules(user=False, packages=False, directories=(str(own),))
    options = {"approval": given.get("approval", "never"), "sandbox": given.get("sandbox")}
    asked = {name: value for name, value in options.items() if value}
    events: list[Event] = []
    async with fixture.open_thread(cwd=project, skills=rules, **asked) as thread:
        for act in given["acts"]:
            _write(act, project, own)
            if act.get("trust"):
                library = SkillLibrary(fixture.directory / "treadle", rules)
                trust_skills(library.home, library.look(project).untrusted)
            events += await _turn(thread, act["say"])
    bodies = [request.body.decode() for request in fixture.requests]
    told = given.get("look_for", ())
    return {
        "told": [[body.count(words) for words in told] for body in bodies],
        "statuses": [each.status for each in events if isinstance(each, TurnCompleted)],
        "approvals": sum(isinstance(each, ApprovalRequested) for each in events),
        "extends": extends(fixture.requests),
    }


async def _turn(thread: Thread, said: str) -> list[Event]:
    heard: list[Event] = []
    async for event in thread.run(said):
        heard.append(event)
        if isinstance(event, ApprovalRequested):
            thread.answer(event.id, No())
    return heard


def _write(act: Mapping[str, Any], project: Path, own: Path) -> None:
    for skill in act.get("skills", ()):
        place = project / ".agents" / "skills" if skill.get("project") else own
        directory = place / skill["name"]
        directory.mkdir(parents=True, exist_ok=True)
        lines = [f"name: {skill['name']}", f"description: {skill['description']}"]
        lines += [f"allowed-tools: {skill['allows']}"] if "allows" in skill else []
        text = "\n".join(["---", *lines, "---", skill.get("text", "Do it."), ""])
        (directory / "SKILL.md").write_text(text, encoding="utf-8")
