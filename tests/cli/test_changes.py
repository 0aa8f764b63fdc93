from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from treadle import Thread
from treadle.cli.repl.changes import changes
from treadle.testing import ScriptedModel


def git(*arguments: str, cwd: Path) -> None:
    who = ("-c", "user.email=a@b", "-c", "user.name=a")
    subprocess.run(["git", *who, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    git("init", "-q", cwd=place)
    (place / "file").write_text("old\n")
    git("add", "file", cwd=place)
    git("commit", "-qm", "x", cwd=place)
    (place / "file").write_text("old\nnew\n")
    (place / "more").touch()
    return place


async def diff(cwd: Path) -> str:
    home = cwd.parent / "home"
    model = ScriptedModel([])
    async with Thread.open(model=model, cwd=str(cwd), home=home) as thread:
        text = await changes(thread)
    await model.close()
    return text


async def test_changes_are_told_as_git_tells_them(repository: Path):
    told = await diff(repository)
    assert "\n+new\n" in told
    assert "+++ new file more\n" in told


async def test_before_the_first_commit_every_file_is_new(tmp_path: Path):
    place = tmp_path / "young"
    place.mkdir()
    git("init", "-q", cwd=place)
    for name in ("added", "known to nobody", "ignored"):
        (place / name).touch()
    (place / ".gitignore").write_text("ignored\n")
    git("add", "added", cwd=place)
    told = await diff(place)
    assert sorted(told.splitlines()) == [
        "+++ new file .gitignore",
        "+++ new file added",
        "+++ new file known to nobody",
    ]


@pytest.mark.parametrize("above", [False, True])
async def test_no_program_that_a_repository_names_reaches_the_disk(repository: Path, above: bool):
    escaped = repository.parent / "escaped"
    git("config", "filter.e.clean", f"sh -c 'touch {escaped} file.escaped; cat'", cwd=repository)
    git("config", "core.fsmonitor", f"touch {escaped}", cwd=repository)
    (repository / ".gitattributes").write_text("* filter=e\n")
    below = repository / "below"
    below.mkdir()
    told = await diff(below if above else repository)
    assert "\n+new\n" in told
    assert not escaped.exists()
    assert not (repository / "file.escaped").exists()


async def test_where_git_cannot_be_confined_it_is_not_asked(
    repository: Path, monkeypatch: pytest.MonkeyPatch
):
    escaped = repository.parent / "escaped"
    git("config", "filter.e.clean", f"sh -c 'touch {escaped}; cat'", cwd=repository)
    (repository / ".gitattributes").write_text("* filter=e\n")
    # Without util-linux there is no sandbox.
    programs = repository.parent / "programs"
    programs.mkdir()
    (programs / "git").symlink_to("/usr/bin/git")
    monkeypatch.setenv("PATH", str(programs))
    assert (await diff(repository)).startswith("git was not asked: commands cannot be sandboxed")
    assert not escaped.exists()
