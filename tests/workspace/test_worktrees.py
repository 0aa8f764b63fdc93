"""Git worktrees: made without running anything of the repository, removed without loss."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from treadle.core.errors import InvalidOption, NotFound, WorktreeRefused
from treadle.workspace.worktrees import WorktreeState, open_worktrees, worktree_name


def git(place: Path, *arguments: str) -> str:
    # By its path, as no command of ours: this is the user.
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=a@b", *arguments],
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "my repository"
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch=main")
    (place / "a.txt").write_text("one\n")
    git(place, "add", ".")
    git(place, "commit", "--quiet", "-m", "first")
    return place


async def test_a_worktree_begins_at_the_last_commit_and_is_found_again(
    repository: Path, tmp_path: Path
):
    (repository / "new.txt").write_text("not committed\n")
    async with open_worktrees(tmp_path / "home", repository) as worktrees:
        assert await worktrees.count_uncommitted() == 1
        made = await worktrees.open("fix")
        assert (made.made, made.branch) == (True, "treadle/fix")
        assert sorted(each.name for each in made.path.iterdir()) == [".git", "a.txt"]
        # Git ignores the place, and so does whoever looks at the directory itself.
        assert await worktrees.count_uncommitted() == 1
        assert [each.name for each in await worktrees.list_worktrees()] == ["fix"]
        assert await worktrees.fresh_name("Fix!") == "fix-2"
    async with open_worktrees(tmp_path / "home", made.path) as inside:
        again = await inside.open("fix")
        assert (again.path, again.made) == (made.path, False)


async def test_what_would_be_lost_is_not_removed(repository: Path, tmp_path: Path):
    async with open_worktrees(tmp_path / "home", repository) as worktrees:
        made = await worktrees.open("fix")
        assert (await worktrees.state(made)).is_empty
        (made.path / "b c.txt").write_text("new\n")
        assert await worktrees.state(made) == WorktreeState(("b c.txt",), 0)
        with pytest.raises(WorktreeRefused, match="1 changed file, which would be lost"):
            await worktrees.remove(made)
        git(made.path, "add", ".")
        git(made.path, "commit", "--quiet", "-m", "second")
        with pytest.raises(WorktreeRefused, match="1 commit, which would be lost"):
            await worktrees.remove(made)
        git(repository, "merge", "--quiet", made.branch)
        assert (await worktrees.remove(made)).is_empty
        assert not made.path.exists()
        assert git(repository, "branch", "--list", "treadle/*") == ""
        forced = await worktrees.open("other")
        (forced.path / "a.txt").write_text("two\n")
        assert (await worktrees.remove(forced, force=True)).files == ("a.txt",)
        assert await worktrees.list_worktrees() == ()


async def test_a_branch_that_is_left_is_taken_up_again(repository: Path, tmp_path: Path):
    git(repository, "branch", "treadle/fix")
    async with open_worktrees(tmp_path / "home", repository) as worktrees:
        made = await worktrees.open("fix")
        assert git(made.path, "branch", "--show-current") == "treadle/fix\n"


async def test_no_filter_and_no_hook_of_the_repository_runs(repository: Path, tmp_path: Path):
    ran = repository / ".git" / "ran"
    (repository / ".gitattributes").write_text("* filter=evil.one\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "attributes")
    git(repository, "config", "filter.evil.one.smudge", f"touch '{ran}'; cat")
    git(repository, "config", "filter.evil.one.required", "true")
    for name in ("post-checkout", "reference-transaction"):
        hook = repository / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
        hook.chmod(0o755)
    async with open_worktrees(tmp_path / "home", repository) as worktrees:
        made = await worktrees.open("fix")
        assert (made.path / "a.txt").read_text() == "one\n"
        await worktrees.remove(made)
    assert not ran.exists()


async def test_a_submodule_is_left_empty_and_no_obstacle(repository: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    git(other, "commit", "--quiet", "--allow-empty", "-m", "x")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git(repository, "commit", "--quiet", "-m", "submodule")
    async with open_worktrees(tmp_path / "home", repository) as worktrees:
        made = await worktrees.open("fix")
        assert list((made.path / "sub").iterdir()) == []
        assert (await worktrees.remove(made)).is_empty


async def test_where_no_worktree_can_be_the_reason_is_told(repository: Path, tmp_path: Path):
    empty, bare = tmp_path / "empty", tmp_path / "bare.git"
    plain = tmp_path / "plain"
    plain.mkdir()
    git(tmp_path, "init", "--quiet", str(empty))
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), str(bare))
    with pytest.raises(NotFound, match="worktrees need one; `git init` makes it"):
        async with open_worktrees(tmp_path / "home", plain):
            pass
    with pytest.raises(WorktreeRefused, match="is a bare repository, in which nobody can work"):
        async with open_worktrees(tmp_path / "home", bare):
            pass
    async with open_worktrees(tmp_path / "home", empty) as worktrees:
        with pytest.raises(WorktreeRefused, match="has no commit yet; make a first one"):
            await worktrees.open("fix")
    (repository / ".treadle").symlink_to(plain)
    async with open_worktrees(tmp_path / "home", repository) as worktrees:
        with pytest.raises(WorktreeRefused, match="is a link; remove it"):
            await worktrees.open("fix")
        with pytest.raises(NotFound, match="no worktree 'fix'"):
            await worktrees.find_one("fix")
        for name in ("fix login", "../x", "a..b", "x.lock", "x.", "-x", ""):
            with pytest.raises(InvalidOption, match="is no name for a worktree; use letters"):
                await worktrees.open(name)


async def test_linked_worktrees_of_a_bare_repository_have_some_of_their_own(
    repository: Path, tmp_path: Path
):
    bare, linked = tmp_path / "bare.git", tmp_path / "linked"
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), str(bare))
    git(bare, "worktree", "add", "--quiet", str(linked), "main")
    async with open_worktrees(tmp_path / "home", linked) as worktrees:
        made = await worktrees.open("fix")
        assert made.path == linked / ".treadle" / "worktrees" / "fix"
        await worktrees.remove(made)


def test_names_are_made_of_words():
    assert worktree_name("Fix the login, please!") == "fix-the-login-please"
    assert worktree_name("ä ö") == ""
