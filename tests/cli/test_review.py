from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .scripts import scripted, shell
from .terminal import Treadle
from .test_chat import answers
from .test_daily_use import chat

FINDING = {
    "title": "The sign is lost",
    "detail": "abs(-1) is 1, so that a debt becomes a credit.",
    "file": "sums.py",
    "line": 1,
    "priority": 1,
}
REVIEW = json.dumps({"summary": "One thing to mend.", "findings": [FINDING]})


def git(place: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=place, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def project(treadle: Treadle) -> Path:
    place = treadle.project
    git(place, "init", "-q", "-b", "main")
    (place / "sums.py").write_text("def owed(x):\n    return x\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    return place


def reviewer(treadle: Treadle, *before: dict[str, Any]) -> str:
    return scripted(treadle, *before, {"text": REVIEW})


def order(treadle: Treadle) -> str:
    """What the reviewer was asked."""
    entries = treadle("show", "last", "--json").json_lines
    said = [e["item"] for e in entries if e["kind"] == "item" and not e["flags"]]
    asked: str = next(i["content"][0]["text"] for i in said if i.get("role") == "user")
    return asked


def test_the_working_tree_is_reviewed_with_files_that_git_does_not_know(treadle, project):
    (project / "sums.py").write_text("def owed(x):\n    return abs(x)\n")
    (project / "new.py").write_text("x = 1\n")
    treadle.environ["TREADLE_HOME"] = str(treadle.project.parent / "no-home-yet")
    done = treadle("review", "--model", reviewer(treadle), "look at the signs")
    assert done.text.splitlines() == [
        "1. The sign is lost",
        "   sums.py:1 · priority 1, mend first",
        "   abs(-1) is 1, so that a debt becomes a credit.",
        "",
        "One thing to mend.",
    ]
    asked = order(treadle)
    assert "`git diff HEAD`" in asked
    assert "(2 files are changed.)" in asked
    assert asked.endswith("\n\nlook at the signs")
    told = treadle("prompt", "--thread", "last", "--json", "more").text
    assert "You review a change that somebody else made." in told


def test_a_reviewer_changes_nothing(treadle, project):
    (project / "sums.py").write_text("def owed(x):\n    return abs(x)\n")
    model = reviewer(treadle, {"calls": [shell("echo gone > sums.py")]})
    done = treadle("review", "--model", model)
    assert "read-only" in done.err
    assert (project / "sums.py").read_text() == "def owed(x):\n    return abs(x)\n"


def test_a_branch_is_reviewed_since_it_began(treadle, project):
    began = git(project, "rev-parse", "HEAD")
    git(project, "checkout", "-qb", "topic")
    (project / "sums.py").write_text("def owed(x):\n    return abs(x)\n")
    git(project, "commit", "-qam", "second")
    git(project, "checkout", "-q", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    git(project, "checkout", "-q", "topic")
    done = treadle("review", "--base", "main", "--json", "--model", reviewer(treadle))
    (told,) = done.json_lines
    assert told["findings"] == [FINDING]
    assert told["thread"].startswith("thr_")
    assert f"`git diff {began}`" in order(treadle)


def test_a_commit_is_reviewed_by_its_whole_name(treadle, project):
    treadle("review", "--commit", "HEAD", "--model", reviewer(treadle))
    assert f"`git show {git(project, 'rev-parse', 'HEAD')}`" in order(treadle)


@pytest.mark.parametrize(("bound", "code"), [(0, 0), (1, 1), (3, 1)])
@pytest.mark.usefixtures("project")
def test_a_weighty_finding_fails_a_build(treadle, bound: int, code: int):
    options = ("--commit", "HEAD", "--fail-on", str(bound))
    done = treadle.attempt("review", *options, "--model", reviewer(treadle))
    assert done.code == code


@pytest.mark.usefixtures("project")
def test_where_nothing_changed_no_model_is_asked(treadle):
    done = treadle("review", "--model", reviewer(treadle))
    assert done.text.startswith("nothing has changed; name a branch with --base")
    assert treadle("threads", "--json").json == []


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--base", "nope"), 1, "no revision 'nope'"),
        (("--base=--output=x",), 2, "is no revision"),
        (("--base", "main", "--commit", "HEAD"), 2, "exclude each other"),
        (("--fail-on", "4"), 2, "is not in the range"),
    ],
)
def test_what_cannot_be_reviewed_is_said_and_makes_no_thread(
    treadle, options: tuple[str, ...], code: int, said: str
):
    assert said in treadle.refused("review", *options, "--model", reviewer(treadle), code=code)
    assert treadle("threads", "--json").json == []


def test_outside_of_a_repository_the_way_out_is_named(treadle):
    told = treadle.refused("review", "--model", reviewer(treadle))
    assert "git repository" in told
    assert "-C" in told


@pytest.mark.usefixtures("project")
def test_an_answer_that_is_no_review_fails(treadle):
    model = scripted(treadle, {"text": "Looks fine to me.", "times": 0})
    said = treadle.refused("review", "--commit", "HEAD", "--model", model)
    assert "the answer does not fit its schema: it is no JSON" in said


def test_a_review_in_the_chat_is_a_thread_of_its_own(treadle, project):
    (project / "sums.py").write_text("def owed(x):\n    return abs(x)\n")
    answers(treadle, {"when": "hello", "text": "Hello."}, {"text": REVIEW})
    with chat(treadle) as session:
        session.until("\n>")
        session.type("hello\r")
        session.until("Hello.", "cached\n>")
        session.type("/review --bse main\r")
        session.until("there is no '--bse' here: /review [--base BRANCH")
        session.type("/review --base nowhere\r")
        session.until("no revision 'nowhere'")
        session.type("/review look at the signs\r")
        session.until("1. The sign is lost", "sums.py:1 · priority 1, mend first")
        session.until("One thing to mend.", "ask the reviewer more: /resume")
        session.type("\x04")
        assert session.end() == 0
    titles = {row["title"] for row in treadle("threads", "--json").json}
    assert "review of the working tree" in titles
    assert len(treadle("threads", "--json").json) == 2
