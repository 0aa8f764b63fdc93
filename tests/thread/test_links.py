"""What Treadle reads for a model: no link leads it to what the model may not read."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from treadle import ConfigError, Rights, Thread
from treadle.prompt.input import LocalImage
from treadle.sandbox.reading import open_for_model
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


class Disk:
    """A user with secrets, a home of Treadle and a project."""

    def __init__(self, place: Path) -> None:
        self.user, self.home, self.project = (
            place / name for name in ("user", "treadle", "project")
        )
        for each in (self.user / ".ssh", self.home, self.project / ".git"):
            each.mkdir(parents=True)
        self.key = self.user / ".ssh" / "id_rsa"
        self.key.write_text("SECRET-OF-THE-USER\n")
        self.own = self.home / "auth.json"
        self.own.write_text('{"key": "SECRET-OF-TREADLE"}')


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(tmp_path)
    monkeypatch.setenv("HOME", str(made.user))
    return made


async def sent(disk: Disk, *inputs: tuple[Any, ...], calls: tuple[Call, ...] = ()) -> str:
    """All that a provider receives."""
    answers = [*(Answer(calls=(call,)) for call in calls), *(Answer(text="ok") for _ in inputs)]
    model = ScriptedModel(answers)
    async with Thread.open(
        model=model,
        cwd=str(disk.project),
        home=disk.home,
        rights=Rights(sandbox="workspace-write", approval="never"),
    ) as thread:
        for parts in inputs:
            async for _ in thread.run(*parts):
                pass
    bodies = "\n".join(json.dumps(request.payload) for request in model.requests)
    await model.close()
    return bodies


@pytest.mark.parametrize("which", ["key", "own"])
async def test_a_command_cannot_have_a_hidden_file_read_as_instructions(disk: Disk, which: str):
    target = getattr(disk, which)
    link = Call(name="exec_command", arguments={"cmd": f"ln -s {target} AGENTS.md"})
    bodies = await sent(disk, ("one",), ("two",), calls=(link,))
    assert (disk.project / "AGENTS.md").is_symlink()
    assert "SECRET-OF" not in bodies


async def test_a_link_within_the_project_is_followed_and_one_out_of_it_is_not(disk: Disk):
    (disk.project / "CLAUDE.md").write_text("Be kind.")
    (disk.project / "AGENTS.md").symlink_to("CLAUDE.md")
    assert "Be kind." in await sent(disk, ("one",))
    other = disk.user / "notes.md"
    other.write_text("Be unkind.")
    (disk.project / "AGENTS.md").unlink()
    (disk.project / "AGENTS.md").symlink_to(other)
    assert "Be unkind." not in await sent(disk, ("one",))


async def test_a_directory_on_the_way_may_be_no_link_out_either(disk: Disk):
    (disk.user / ".ssh" / "AGENTS.md").write_text("SECRET-OF-THE-USER")
    (disk.project / "docs").symlink_to(disk.user / ".ssh")
    (disk.project / "AGENTS.md").symlink_to("docs/AGENTS.md")
    assert "SECRET-OF" not in await sent(disk, ("one",))


async def test_the_users_own_instructions_may_lie_where_they_like(disk: Disk):
    mine = disk.user / "mine.md"
    mine.write_text("Speak Latin.")
    (disk.home / "AGENTS.md").symlink_to(mine)
    assert "Speak Latin." in await sent(disk, ("one",))


async def test_an_image_that_is_a_link_to_a_hidden_file_is_refused_and_not_read(disk: Disk):
    (disk.user / ".ssh" / "picture.png").write_bytes(PIXEL)
    (disk.project / "picture.png").symlink_to(disk.user / ".ssh" / "picture.png")
    with pytest.raises(ConfigError, match="is hidden by the sandbox policy; name a whole image"):
        await sent(disk, ("what is it?", LocalImage(disk.project / "picture.png")))


def test_nobody_swaps_a_file_between_the_check_and_the_reading(disk: Disk):
    good, link, stop = disk.project / "good.md", disk.project / "AGENTS.md", threading.Event()
    good.write_text("good")
    link.symlink_to(good)

    def swap() -> None:
        while not stop.is_set():
            for target in (disk.key, good):
                (disk.project / "next").symlink_to(target)
                (disk.project / "next").rename(link)

    swapper = threading.Thread(target=swap)
    swapper.start()
    told = {"read": 0, "refused": 0}
    try:
        while min(told.values()) < 200:
            try:
                with open_for_model(disk.project, disk.home, link) as file:
                    assert file.read() == b"good"
                told["read"] += 1
            except PermissionError:
                told["refused"] += 1
    finally:
        stop.set()
        swapper.join()


def test_a_hidden_file_is_hidden_under_its_own_name_and_where_nothing_is_confined(disk: Disk):
    with pytest.raises(PermissionError, match="is hidden by the sandbox policy"):
        open_for_model(disk.project, disk.home, disk.own)
    (disk.project / "schema.json").symlink_to(disk.own)
    with pytest.raises(PermissionError, match="is hidden by the sandbox policy"):
        open_for_model(disk.project, disk.home, disk.project / "schema.json")
