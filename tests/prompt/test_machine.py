from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import pytest

from treadle.prompt import AgentsDocs, DocsRules, PromptContext, discover, observe_machine
from treadle.prompt.machine import user_shell
from treadle.prompt.today import MachineClock, Today, zone_name


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "a" / "b").mkdir(parents=True)
    return root


def found(cwd: Path, home: Path | None = None, rules: DocsRules | None = None) -> AgentsDocs:
    docs = discover(cwd, home=home, rules=rules)
    assert docs is not None
    return docs


def test_files_are_joined_from_the_root_down(project: Path):
    (project / "AGENTS.md").write_text("root")
    (project / "a" / "AGENTS.md").write_text("middle")
    (project / "a" / "b" / "AGENTS.md").write_text("leaf\n")
    (project.parent / "AGENTS.md").write_text("outside")
    cwd = project / "a" / "b"
    assert found(cwd) == AgentsDocs(str(cwd), "root\n\nmiddle\n\nleaf\n")


def test_the_users_own_file_comes_first(project: Path, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "AGENTS.md").write_text("\nmine\n")
    (project / "AGENTS.md").write_text("ours")
    assert found(project, home).text == "mine\n\n--- project-doc ---\n\nours"
    (project / "AGENTS.md").unlink()
    assert found(project, home).text == "mine"


def test_a_blank_override_of_the_users_own_file_is_passed_over(project: Path, tmp_path: Path):
    (tmp_path / "AGENTS.override.md").write_text(" \n")
    (tmp_path / "AGENTS.md").write_text("mine")
    assert found(project, tmp_path).text == "mine"


def test_an_override_hides_its_neighbour_only(project: Path):
    (project / "AGENTS.md").write_text("root")
    (project / "a" / "AGENTS.md").write_text("hidden")
    (project / "a" / "AGENTS.override.md").write_text("instead")
    assert found(project / "a").text == "root\n\ninstead"


def test_fallback_names_are_tried_in_order(project: Path):
    (project / "CLAUDE.md").write_text("second")
    (project / "HOUSE.md").write_text("first")
    rules = DocsRules(fallback_names=("HOUSE.md", "CLAUDE.md"))
    assert found(project, rules=rules).text == "first"
    assert discover(project) is None


def test_without_a_project_only_the_directory_itself_counts(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("above")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "AGENTS.md").write_text("here")
    rules = DocsRules(root_markers=(".no-such-marker",))
    assert found(inner, rules=rules).text == "here"
    assert found(inner, rules=DocsRules(root_markers=())).text == "here"


def test_the_nearest_root_wins_and_a_git_file_is_one(project: Path):
    (project / "AGENTS.md").write_text("outer")
    worktree = project / "a"
    (worktree / ".git").write_text("gitdir: elsewhere")
    (worktree / "AGENTS.md").write_text("inner")
    assert found(worktree / "b").text == "inner"


def test_blank_files_are_skipped(project: Path):
    (project / "AGENTS.md").write_text(" \n\t")
    assert discover(project) is None


def test_all_files_share_one_budget_cut_on_a_character(project: Path):
    (project / "AGENTS.md").write_text("x" * 10)
    (project / "a" / "AGENTS.md").write_text("€" * 10)
    (project / "a" / "b" / "AGENTS.md").write_text("late")
    docs = found(project / "a" / "b", rules=DocsRules(max_bytes=18))
    assert docs.text == "x" * 10 + "\n\n" + "€€"
    assert docs.problems == (
        f"'{project}/a/AGENTS.md' was cut to 8 bytes; the files together are too long",
        f"'{project}/a/b/AGENTS.md' was left out; the files together are too long",
    )


def test_a_budget_of_nothing_ignores_project_files(project: Path, tmp_path: Path):
    (project / "AGENTS.md").write_text("ours")
    (tmp_path / "AGENTS.md").write_text("mine")
    assert found(project, tmp_path, DocsRules(max_bytes=0)).text == "mine"


def test_the_default_budget_is_32_kib(project: Path):
    (project / "AGENTS.md").write_text("x" * 40_000)
    docs = found(project)
    assert docs.text == "x" * 32_768
    assert len(docs.problems) == 1


def test_an_endless_file_is_left_out_with_a_report(project: Path):
    (project / "AGENTS.md").symlink_to("/dev/zero")
    docs = found(project)
    path = project / "AGENTS.md"
    problem = f"'{path}' cannot be read (it is not a regular file)"
    assert docs == AgentsDocs(str(project), "", (problem,))


def test_a_pipe_nobody_writes_to_does_not_stop_the_turn(project: Path):
    os.mkfifo(project / "AGENTS.md")
    assert "cannot be read" in found(project).problems[0]


def test_a_loop_of_links_is_reported_and_the_next_name_tried(project: Path):
    (project / "AGENTS.override.md").symlink_to("AGENTS.override.md")
    (project / "AGENTS.md").write_text("ours")
    docs = found(project)
    assert docs.text == "ours"
    assert "AGENTS.override.md' cannot be read" in docs.problems[0]


def test_a_directory_of_that_name_is_reported(project: Path):
    (project / "AGENTS.md").mkdir()
    assert "cannot be read" in found(project).problems[0]


def test_a_working_directory_that_is_gone_has_no_files(tmp_path: Path):
    assert discover(tmp_path / "gone") is None


def test_a_binary_file_is_left_out_with_a_report(project: Path):
    (project / "AGENTS.md").write_bytes(b"\x7fELF\0\0")
    assert found(project) == AgentsDocs(str(project), "", (f"'{project}/AGENTS.md' is not text",))


def test_odd_bytes_are_replaced_with_a_report(project: Path):
    (project / "AGENTS.md").write_bytes(b"caf\xe9 rules")
    docs = found(project)
    assert docs.text == "caf\N{REPLACEMENT CHARACTER} rules"
    assert docs.problems == (f"'{project}/AGENTS.md' is not all UTF-8; odd bytes were replaced",)


def test_a_directory_with_an_odd_name_can_still_be_written_down(tmp_path: Path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    odd.mkdir()
    (odd / "AGENTS.md").write_text("here")
    docs = found(odd, rules=DocsRules(root_markers=()))
    assert docs.directory == f"{tmp_path}/\N{REPLACEMENT CHARACTER}"
    assert docs.directory.encode()


def test_the_machine_is_read_into_the_settings(project: Path):
    (project / "AGENTS.md").write_text("ours")
    settings = PromptContext(cwd="", approval_policy="never", guidance="Recall.")
    seen = observe_machine(project, settings=settings, environ={"SHELL": "/bin/sh"})
    assert seen == PromptContext(
        cwd=str(project),
        shell="sh",
        approval_policy="never",
        guidance="Recall.",
        agents_docs=AgentsDocs(str(project), "ours"),
    )


def test_the_process_itself_is_looked_at_by_default(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(project)
    monkeypatch.setenv("SHELL", "/bin/sh")
    assert observe_machine() == PromptContext(cwd=str(project), shell="sh")


def test_the_clock_is_looked_at_where_there_is_one(project: Path):
    seen = observe_machine(project, clock=lambda: Today("2026-11-16", "Europe/Copenhagen"))
    assert (seen.date, seen.timezone) == ("2026-11-16", "Europe/Copenhagen")


@pytest.mark.parametrize(
    ("path", "shell"),
    [("/bin/bash", "bash"), ("/bin/sh", "sh"), ("/bin/fish", "bash"), ("/odd/", "bash")],
)
def test_a_shell_whose_scripts_nobody_reads_is_not_used(path: str, shell: str):
    assert user_shell({"SHELL": path, "PATH": "/bin"}) == shell


def test_a_shell_that_the_user_installed_is_used_by_its_path(tmp_path: Path):
    zsh = tmp_path / "zsh"
    zsh.symlink_to("/bin/bash")
    assert user_shell({"SHELL": str(zsh), "PATH": "/bin"}) == str(zsh)
    seen = observe_machine(tmp_path, environ={"SHELL": str(zsh)})
    assert seen.shell == "zsh"
    assert user_shell({"PATH": str(tmp_path / "nowhere")}) == "sh"


@pytest.mark.parametrize(
    ("zone", "hours", "name"),
    [
        ("Europe/Copenhagen", 1, "Europe/Copenhagen"),
        (":/usr/share/zoneinfo/Asia/Kolkata", 5.5, "Asia/Kolkata"),
        ("UTC", 0, "UTC"),
        ("CET-1", 1, "UTC+01:00"),
        ("NST3:30", -3.5, "UTC-03:30"),
    ],
)
def test_a_time_zone_has_its_name_or_its_offset(zone: str, hours: float, name: str):
    assert zone_name({"TZ": zone}, timedelta(hours=hours)) == name


def test_the_machine_knows_the_day():
    today = MachineClock()()
    assert date.fromisoformat(today.date)
    assert today.timezone
