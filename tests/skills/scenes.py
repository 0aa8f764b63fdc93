"""Skills and threads for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from treadle import Thread
from treadle.core.items import Message, decode_item, text_of
from treadle.skills.discovery import FoundSkills
from treadle.skills.rules import SkillRules
from treadle.skills.skill_library import SkillLibrary
from treadle.skills.skill_trust import trust_skills
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer

__all__ = ["hear", "library", "open_thread", "texts", "trust_all", "write_skill"]


def write_skill(
    place: Path, name: str, description: str = "Does a thing.", body: str = "Do it.", **fields: str
) -> Path:
    """Write a skill below `place`; return its directory."""
    directory = place / name
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"{key.replace('_', '-')}: {value}" for key, value in fields.items()]
    head = "\n".join(["---", f"name: {name}", f"description: {description}", *lines, "---"])
    (directory / "SKILL.md").write_text(f"{head}\n{body}\n", encoding="utf-8")
    return directory


def library(tmp_path: Path, **rules: Any) -> SkillLibrary:
    """Return a library over `tmp_path`: `home` is Treadle's, `user` the user's."""
    environ = {"HOME": str(tmp_path / "user")}
    return SkillLibrary(tmp_path / "home", SkillRules(**rules), environ)


def trust_all(tmp_path: Path, cwd: Path) -> FoundSkills:
    """Trust every skill of the project in `cwd`; return what there is then."""
    found = library(tmp_path).look(cwd)
    trust_skills(tmp_path / "home", found.untrusted)
    return library(tmp_path).look(cwd)


@asynccontextmanager
async def open_thread(
    tmp_path: Path, *answers: Answer, thread: str | None = None, **options: Any
) -> AsyncIterator[tuple[Thread, ScriptedModel]]:
    """Open a thread in the project, with a model that says `answers`."""
    (tmp_path / "project").mkdir(exist_ok=True)
    model = ScriptedModel(answers or [Answer(text=f"{n}") for n in range(9)])
    try:
        async with Thread.open(
            thread,
            model=model,
            cwd=tmp_path / "project",
            home=tmp_path / "home",
            **{"skills": SkillRules(packages=False), **options},
        ) as opened:
            yield opened, model
    finally:
        await model.close()


async def hear(thread: Thread, *said: Any) -> list[Any]:
    return [event async for event in thread.run(*said)]


def texts(thread: Thread, word: str) -> list[str]:
    """Return the texts of the view with a word, each part of its own."""
    items = [decode_item(row.body) for row in thread.view.rows]
    parts = [
        text_of((part,)) for item in items if isinstance(item, Message) for part in item.content
    ]
    return [part for part in parts if word in part]
