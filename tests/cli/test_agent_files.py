"""Agents in files, for people: listed, trusted, started in a chat."""

from __future__ import annotations

from pathlib import Path

from .scripts import call, scripted
from .terminal import Treadle
from .test_chat import answers
from .test_daily_use import chat

REVIEWER = "---\ndescription: Looks for bugs.\nsandbox: read-only\n---\nReport bugs only.\n"


def of_project(treadle: Treadle, name: str, text: str = REVIEWER) -> Path:
    file = treadle.project / ".treadle" / "agents" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_agents_are_listed_with_what_is_wrong_and_shown(treadle: Treadle):
    of_project(treadle, "reviewer")
    bad = of_project(treadle, "bad", "---\ntools: x\n---\n")
    problem = "it has no description; add a line `description: …` to its header"
    assert treadle("agents").lines == [
        "NAME      FROM     STATE        DESCRIPTION",
        f"bad       project  wrong        {bad}: {problem}",
        "reviewer  project  not trusted  Looks for bugs.",
    ]
    rows = treadle("agents", "list", "--json").json
    assert [(row["name"], row["state"]) for row in rows] == [
        ("bad", "wrong"),
        ("reviewer", "not trusted"),
    ]
    assert rows[1]["definition"]["sandbox"] == "read-only"
    shown = treadle("agents", "show", "reviewer").lines
    assert shown[0] == f"reviewer (project, not trusted): {bad.with_name('reviewer.md')}"
    assert "sandbox      at most read-only" in shown
    assert shown[-1] == "Report bugs only."
    assert "did you mean 'reviewer'?" in treadle.refused("agents", "show", "revewer")


def test_a_projects_agents_are_offered_once_they_are_trusted(treadle: Treadle):
    file = of_project(treadle, "reviewer")
    model = scripted(
        treadle,
        {"when": "look", "text": "No bugs."},
        {"when": "begin", "calls": [call("spawn_agent", message="look", agent_type="reviewer")]},
        {"when": "agent_id", "text": "I wait."},
        {"when": "No bugs.", "text": "All is well."},
        {"text": "ok", "times": 0},
    )
    first = treadle("exec", "hello", "--model", model)
    assert "agents of this project are not offered: reviewer; read them, then" in first.err
    assert "<agent_types>" not in treadle("prompt", "--thread", "last", "--json").text
    told = treadle("trust")
    assert told.lines == [f"trusted: {file}, the agent reviewer"]
    assert treadle("trust", "--show", "--json").json["agents"] == [
        {"name": "reviewer", "file": str(file), "trusted": True, "problem": None}
    ]
    done = treadle("exec", "--last", "begin")
    assert done.text == "All is well.\n"
    assert "not offered" not in done.err
    assert "<agent_types>" in treadle("prompt", "--thread", "last", "--json").text
    treadle("trust", "--remove")
    assert "not offered: reviewer" in treadle("exec", "--last", "more").err


def test_a_user_starts_an_agent_after_reading_its_file(treadle: Treadle):
    of_project(treadle, "reviewer")
    answers(
        treadle,
        {"when": "look at main.py", "text": "Line 3 is wrong."},
        {"when": "Line 3", "text": "The reviewer found line 3."},
    )
    with chat(treadle) as session:
        session.until("\n>")
        session.type("/agents\r")
        session.until("reviewer  an agent of this project, not trusted yet")
        session.type("/agents revewer\r")
        session.until("no file defines the agent 'revewer'; did you mean 'reviewer'?")
        session.type("/agents reviewer look at main.py\r")
        session.until("Report bugs only.", "Use this agent of the project?")
        session.type("yes\r")
        session.until("started reviewer, thr_", "The reviewer found line 3.")
        session.type("/agents\r")
        session.until("Looks for bugs.", "completed · thr_")
        session.type("\x04")
        assert session.end() == 0
