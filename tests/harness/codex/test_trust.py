from __future__ import annotations

from pathlib import Path

import pytest

from treadle.harness.codex.codex_home import CodexHome
from treadle.harness.codex.codex_options import CodexOptions

from .scenes import Stage, hear, last, open_stage, talk

USER = CodexOptions(home="user")
OWN = "[features]\nplugins = false\n"


def foreign(place: Path) -> Path:
    """A project whose settings for Codex start a program; what that leaves behind."""
    project, mark = place / "project", place / "started"
    (project / ".git").mkdir(parents=True)
    (project / ".codex").mkdir()
    (project / ".codex" / "config.toml").write_text(
        f'[mcp_servers.foreign]\ncommand = "touch"\nargs = ["{mark}"]\n'
    )
    (project / "AGENTS.md").write_text("Speak of the weather.")
    return mark


def settings(place: Path, text: str) -> Path:
    """The user's own settings of Codex."""
    file = place / "home" / ".codex" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


async def ask(stage: Stage, **options) -> None:
    """Two turns, on two Codex threads."""
    async with stage.thread(**options) as thread:
        await talk(thread, "One.")
        await thread.rollback(1)
        assert last(await hear(thread, "Two.")).status == "completed"
    assert all(b"Speak of the weather." in request.body for request in stage.requests)


@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
async def test_a_project_starts_no_program_because_codex_works_in_it(tmp_path, sandbox):
    mark = foreign(tmp_path)
    async with open_stage(tmp_path) as stage:
        await ask(stage, sandbox=sandbox)
        home = CodexHome.below(tmp_path / "treadle")
        assert not mark.exists()
        assert "projects" not in (home.directory / "config.toml").read_text()


async def test_codex_decides_in_nobody_s_place_whom_the_user_trusts(tmp_path):
    mark, file = foreign(tmp_path), settings(tmp_path, OWN)
    async with open_stage(tmp_path, options=USER) as stage:
        await ask(stage)
    assert not mark.exists()
    assert file.read_text() == OWN


async def test_a_project_that_the_user_trusts_is_heeded_as_in_the_user_s_own_codex(tmp_path):
    mark = foreign(tmp_path)
    trusting = f'{OWN}[projects."{tmp_path / "project"}"]\ntrust_level = "trusted"\n'
    file = settings(tmp_path, trusting)
    async with open_stage(tmp_path, options=USER) as stage:
        await ask(stage, cwd=tmp_path / "project")
    assert mark.exists()
    assert file.read_text() == trusting


async def test_the_user_s_own_codex_gives_no_more_rights_than_the_thread_has(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    more = f'[sandbox_workspace_write]\nwritable_roots = ["{elsewhere}"]\nnetwork_access = true\n'
    settings(tmp_path, OWN + more)
    async with (
        open_stage(tmp_path, options=USER) as stage,
        stage.thread(sandbox="workspace-write") as thread,
    ):
        await talk(thread, "Hello.")
    told = stage.requests[0].body.decode()
    assert "Network access is restricted" in told
    assert str(elsewhere) not in told


def test_a_directory_is_known_by_itself_and_by_its_repository(tmp_path):
    foreign(tmp_path)
    project = tmp_path / "project"
    home = CodexHome(tmp_path / "home" / ".codex", private=False)
    assert not home.has_trust_setting(project)
    settings(tmp_path, f'[projects."{project}"]\ntrust_level = "untrusted"\n')
    assert home.has_trust_setting(project)
    assert home.has_trust_setting(project / "src" / "deep")
    assert not home.has_trust_setting(tmp_path)
    assert not CodexHome(home.directory, private=True).has_trust_setting(project)
    settings(tmp_path, "projects = 7")
    assert not home.has_trust_setting(project)
