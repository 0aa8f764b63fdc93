from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import ConfigError
from treadle.sandbox.boundary import Boundary, PathRule, resolve_boundary
from treadle.sandbox.policy import SandboxMode, SandboxPolicy


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("workspace", "outside", "home", "user"):
        (tmp_path / name).mkdir()
    return tmp_path


def line(place: Path, mode: SandboxMode = "workspace-write", **settings: object) -> Boundary:
    settings = {"exclude_slash_tmp": True, "hidden": (), **settings}
    policy = SandboxPolicy(mode=mode, **settings)  # type: ignore[arg-type]
    environ = {"HOME": str(place / "user"), "TMPDIR": str(place / "outside")}
    return resolve_boundary(policy, place / "workspace", home=place / "home", environ=environ)


def rules(boundary: Boundary, place: Path) -> dict[str, str]:
    return {
        str(rule.path.relative_to(place)): rule.access
        for rule in boundary.rules
        if rule.path.is_relative_to(place)
    }


def protected(root: str) -> dict[str, str]:
    return {f"{root}/{name}": "read" for name in (".agents", ".codex", ".git", ".treadle")}


def test_read_only_allows_no_writing(place: Path):
    boundary = line(place, "read-only", writable_roots=(str(place),))
    assert boundary.rules[0] == PathRule.of(Path("/"), "read")
    assert {rule.access for rule in boundary.rules[1:]} == {"hidden"}
    assert rules(boundary, place) == {"home": "hidden"}
    assert boundary.writable_roots == ()


def test_workspace_write_opens_the_workspace_and_its_temporary_directories(place: Path):
    (place / "outside/.codex").mkdir()
    boundary = line(place, exclude_slash_tmp=False)
    assert rules(boundary, place) == {
        "home": "hidden",
        "outside": "write",
        "outside/.codex": "read",
        "workspace": "write",
        **protected("workspace"),
    }
    assert "/tmp" in boundary.writable_roots


def test_temporary_directories_can_be_left_out(place: Path):
    boundary = line(place, exclude_tmpdir_env_var=True)
    assert boundary.writable_roots == (str(place / "workspace"),)


def test_full_access_confines_nothing(place: Path):
    boundary = line(place, "danger-full-access")
    assert (boundary.confined, boundary.network) == (False, True)
    assert boundary.is_writable(place / "workspace/.git/config")


def test_roots_in_the_users_home_are_expanded_and_missing_ones_left_out(place: Path):
    (place / "user/cache").mkdir()
    roots = ("~/cache", "~/missing")
    boundary = line(place, writable_roots=roots, exclude_tmpdir_env_var=True)
    assert boundary.writable_roots == (str(place / "workspace"), str(place / "user/cache"))


def test_a_relative_root_is_an_error_that_names_it(place: Path):
    with pytest.raises(ConfigError, match="'build' is not an absolute path; start it with '/'"):
        line(place, writable_roots=("build",))


def test_a_root_that_the_user_spelled_out_wins_over_protection(place: Path):
    (place / "workspace/.git").mkdir()
    boundary = line(place, writable_roots=(str(place / "workspace/.git"),))
    assert boundary.is_writable(place / "workspace/.git/config")
    assert not boundary.is_writable(place / "workspace/.codex/config")


def test_nothing_opens_the_home_of_treadle_again(place: Path):
    (place / "home/work").mkdir()
    boundary = line(place, writable_roots=(str(place / "home/work"), str(place)))
    assert not boundary.is_writable(place / "home/work/file")
    assert not boundary.is_readable(place / "home/auth.json")
    assert boundary.is_writable(place / "other")


def test_skills_in_the_home_of_treadle_are_for_reading_only(place: Path):
    (place / "home/skills/one").mkdir(parents=True)
    (place / "home/skills/one/out").symlink_to(place / "home/auth.json")
    boundary = line(place, writable_roots=(str(place),))
    assert boundary.is_readable(place / "home/skills/one/SKILL.md")
    assert not boundary.is_writable(place / "home/skills/one/SKILL.md")
    assert not boundary.is_readable(place / "home/skills/one/out")
    assert not boundary.is_readable(place / "home/auth.json")


def test_a_link_in_place_of_skills_opens_nothing(place: Path):
    (place / "home/threads").mkdir()
    (place / "home/skills").symlink_to(place / "home/threads")
    assert not line(place).is_readable(place / "home/skills/log.db")


def test_a_gitdir_file_and_what_it_leads_to_are_protected(place: Path):
    workspace = place / "workspace"
    (workspace / "store/one").mkdir(parents=True)
    (workspace / "store/one/commondir").write_text("../all\n")
    (workspace / ".git").write_text("gitdir: store/one\n")
    boundary = line(place)
    names = (".git", "store/one/config", "store/all/config", "store/two", "file")
    assert [boundary.is_writable(workspace / name) for name in names] == [
        *(False, False, False, True, True)
    ]


WAYS_OUT = [
    "../outside2/file",
    "missing/../../outside2/file",
    "link/file",
    "link",
    "loop",
    ".git",
    ".git/hooks/x",
    ".GIT/config",
    ".git./config",
    ".git /config",
    ".treadle",
    ".codex/config.toml",
    ".agents",
    "sub/../.git/config",
    "gitlink/config",
    "..",
    "sub/../..",
]


@pytest.mark.parametrize("way", WAYS_OUT)
def test_writes_in_this_process_find_no_way_out(place: Path, way: str):
    workspace = place / "workspace"
    (workspace / "sub").mkdir()
    (workspace / ".git").mkdir()
    (workspace / "link").symlink_to(place / "home")
    (workspace / "loop").symlink_to("loop2")
    (workspace / "loop2").symlink_to(place / "user" / "file")
    (workspace / "gitlink").symlink_to(".git")
    assert not line(place).is_writable(workspace / way)


@pytest.mark.parametrize(
    "name", ["file", "sub/new/file", ".github/x", ".gitignore", "a/.git/b", "in"]
)
def test_ordinary_paths_can_be_written(place: Path, name: str):
    (place / "workspace/sub").mkdir()
    (place / "workspace/in").symlink_to("sub")
    assert line(place).is_writable(place / "workspace" / name)


def test_a_linked_git_directory_is_protected_on_both_ends(place: Path):
    (place / "workspace/real").mkdir()
    (place / "workspace/.git").symlink_to("real")
    boundary = line(place)
    assert not boundary.is_writable(place / "workspace/.git")
    assert not boundary.is_writable(place / "workspace/real/config")


def test_a_pinned_path_is_written_where_it_was_checked(place: Path):
    target = place / "workspace/sub/file"
    target.parent.mkdir()
    with line(place).pin(target) as pinned:
        target.parent.rename(place / "workspace/moved")
        (place / "workspace/sub").symlink_to(place / "home")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        os.close(os.open(pinned.name, flags, dir_fd=pinned.parent))
    assert (place / "workspace/moved/file").exists()
    assert list((place / "home").iterdir()) == []


def test_pinning_outside_the_roots_is_refused(place: Path):
    (place / "workspace/link").symlink_to(place / "home/file")
    for path in (place / "user/file", place / "workspace/link"):
        with (
            pytest.raises(PermissionError, match="outside the writable roots"),
            line(place).pin(path),
        ):
            pytest.fail("it was pinned")


parts = st.lists(
    st.sampled_from(["a", "b", "..", ".", ".git", ".Git.", "link", "deep", ".treadle"]), max_size=6
)


@given(way=parts)
def test_what_may_be_written_really_lies_in_a_root(
    tmp_path_factory: pytest.TempPathFactory, way: list[str]
):
    place = tmp_path_factory.getbasetemp() / "ways"
    workspace = place / "workspace"
    if not place.exists():
        for name in ("workspace/deep/b", "home", "outside", "user", "workspace/.git"):
            (place / name).mkdir(parents=True)
        (workspace / "link").symlink_to("deep")
        (workspace / "deep/link").symlink_to(place / "user")
    path = workspace.joinpath(*way)
    if line(place, exclude_tmpdir_env_var=True).is_writable(path):
        real = Path(os.path.realpath(path))
        assert real.is_relative_to(workspace)
        assert real == workspace or real.relative_to(workspace).parts[0] not in (".git", ".treadle")


@pytest.mark.parametrize("named", ["user/.ssh/key", "user/.ssh", "run"])
def test_no_file_that_commands_can_write_opens_what_is_hidden(place: Path, named: str):
    (place / "user/.ssh").mkdir()
    (place / "user/.ssh/key").write_text("a secret")
    (place / "outside/.git").write_text(f"gitdir: {place / named}\n")
    boundary = line(place, hidden=("~/.ssh", str(place / "run")))
    assert not boundary.is_readable(place / named)


def test_a_link_opens_nothing_that_is_hidden(place: Path):
    (place / "user/.ssh").mkdir()
    (place / "outside/.codex").symlink_to(place / "user/.ssh/key")
    assert not line(place, hidden=("~/.ssh",)).is_readable(place / "user/.ssh/key")


def test_a_pipe_in_place_of_a_file_of_gits_is_not_waited_for(place: Path):
    (place / "workspace/.git").write_text("gitdir: elsewhere\n")
    (place / "workspace/elsewhere").mkdir()
    os.mkfifo(place / "workspace/elsewhere/commondir")
    assert not line(place).is_writable(place / "workspace/elsewhere/config")


def test_a_repository_that_no_path_leads_to_is_none(place: Path):
    (place / "workspace/.git").write_text("gitdir: \0\n")
    assert rules(line(place, exclude_tmpdir_env_var=True), place) == {
        "home": "hidden",
        "workspace": "write",
        **protected("workspace"),
    }
