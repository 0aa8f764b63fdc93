"""Runs and agents in git worktrees of their own, and the command that lists and removes them."""

from __future__ import annotations

import subprocess

import pytest

from .scripts import call, scripted, shell
from .terminal import Treadle


def git(treadle: Treadle, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=a@b", *arguments]
    done = subprocess.run(command, cwd=treadle.project, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(treadle: Treadle) -> Treadle:
    git(treadle, "init", "--quiet", "--initial-branch=main")
    git(treadle, "add", ".")
    git(treadle, "commit", "--quiet", "-m", "first")
    return treadle


def test_a_run_in_a_worktree_changes_nothing_else(repository: Treadle):
    treadle = repository
    (treadle.project / "mine.txt").write_text("not committed\n")
    model = scripted(
        treadle,
        {"when": "fix", "calls": [shell("echo x > made.txt; pwd")]},
        {"when": "worktrees/login", "text": "Done."},
        {"when": "more", "text": "No more."},
    )
    place = treadle.project / ".treadle" / "worktrees" / "login"
    done = treadle("exec", "--model", model, "--worktree=login", "fix it")
    assert done.text == "Done.\n"
    assert f"treadle: working in {place}, on the branch treadle/login" in done.err
    assert "; it lacks what is not committed (1)" in done.err
    assert f"the branch treadle/login in {place} has 1 changed file (made.txt)" in done.err
    assert (place / "made.txt").read_text() == "x\n"
    assert git(treadle, "status", "--porcelain") == "?? mine.txt\n"
    assert treadle("worktrees", "--json").json == [
        {
            "name": "login",
            "branch": "treadle/login",
            "path": str(place),
            "files": ["made.txt"],
            "commits": 0,
        }
    ]
    # The thread of the worktree goes on there, by its id too.
    again = treadle("exec", "--worktree=login", "--last", "more")
    assert again.text == "No more.\n"
    assert "/.treadle/worktrees/login · " in again.err
    refused = treadle.refused("worktrees", "remove", "login")
    assert "has 1 changed file, which would be lost; commit and merge 'treadle/login'" in refused
    assert "no worktree 'logn'" in treadle.refused("worktrees", "remove", "logn")
    assert treadle("worktrees", "remove", "login", "--force").lines == [
        "removed login, with 1 changed file"
    ]
    assert treadle("worktrees").lines == [
        "no worktrees; `treadle exec --worktree PROMPT` works in one"
    ]


def test_a_worktree_in_which_nothing_changed_is_removed(repository: Treadle):
    treadle = repository
    model = scripted(treadle, {"text": "Nothing to do.", "times": 0})
    done = treadle("exec", "look around", "--model", model, "--worktree")
    assert "working in" in done.err
    assert "nothing has changed in the worktree look-around; it was removed" in done.err
    assert treadle("worktrees", "list", "--json").json == []
    assert git(treadle, "branch", "--list", "treadle/*") == ""
    # Its thread can still be read, and goes on where there is a directory for it.
    thread = treadle("threads", "--json").json[0]["id"]
    assert "Nothing to do." in treadle("show", thread).text
    refused = treadle.refused("exec", "--resume", thread, "again")
    assert f"-C DIR lets {thread} work in another directory" in refused
    assert "--worktree=look-around makes it again" in refused
    assert treadle("exec", "--resume", thread, "again", "--worktree=look-around").text
    assert treadle("exec", "--resume", thread, "again", "-C", ".").text


def test_where_there_is_no_repository_nothing_is_begun(treadle: Treadle):
    model = scripted(treadle, {"text": "ok", "times": 0})
    refused = treadle.refused("exec", "x", "--model", model, "--worktree=a")
    assert "no git repository" in refused
    git(treadle, "init", "--quiet")
    assert "has no commit yet; make a first one" in treadle.refused(
        "exec", "x", "--model", model, "--worktree=a"
    )
    wrong = treadle.refused("exec", "x", "--model", model, "--worktree", "fix it", code=2)
    assert "'fix it' is no name for a worktree; use letters" in wrong
    assert treadle("threads", "--json").json == []


def test_agents_work_in_worktrees_of_their_own_and_report_what_they_leave(repository: Treadle):
    treadle = repository
    agents = treadle.home / "agents"
    agents.mkdir()
    for name in ("writer", "reader"):
        (agents / f"{name}.md").write_text(f"---\ndescription: A {name}.\nworktree: true\n---\n")
    spawns = [
        call("spawn_agent", message=f"{name} begins", task_name=name, agent_type=name)
        for name in ("writer", "reader")
    ]
    model = scripted(
        treadle,
        {"when": "writer begins", "calls": [shell("echo x > made.txt; pwd")]},
        {"when": "worktrees/writer-", "text": "Written."},
        {"when": "reader begins", "text": "Read."},
        {"when": "start", "calls": spawns},
        {"when": "on the branch treadle/writer-", "text": "The writer has left a file."},
        {"text": "ok", "times": 0},
    )
    done = treadle("exec", "start", "--model", model)
    (left,) = treadle("worktrees", "--json").json
    assert left["name"].startswith("writer-")
    assert left["files"] == ["made.txt"]
    told = treadle("prompt", "--thread", "last", "--json").text
    assert f"on the branch {left['branch']}, with 1 changed file that no other branch has." in told
    assert "- made.txt" in told
    assert "reader-" not in told
    assert not (treadle.project / "made.txt").exists()
    assert done.text
