from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.small_tasks import write_task
from tests.fork_server import Process

from .scripts import scripted, shell
from .terminal import SCRIPT, Treadle

OWN = Path(__file__).parent.parent.parent / "evaluation" / "tasks"
SLOW = "echo began >> effects.txt; test -e quick || sleep 60"


@pytest.fixture
def run(treadle: Treadle) -> Path:
    return treadle.project / "run"


def result(run: Path, task: str, attempt: int = 1) -> dict[str, Any]:
    return dict(json.loads((run / "attempts" / task / str(attempt) / "result.json").read_text()))


def test_tasks_are_run_graded_and_written_down(treadle, run):
    # All of ours but the two that take long because they are long.
    names = sorted(each.name for each in OWN.iterdir() if not each.name.endswith("-hotel"))
    done = treadle("eval", *(OWN / name for name in names), "--scripted", "-o", run, "-n", "2")
    assert [line.split()[:2] for line in done.lines] == [
        ["task", "solved"],
        *[[name, "1/1"] for name in names],
        ["all", "12/12"],
    ]
    told = json.loads((run / "results.json").read_text())
    assert (told["total"]["solved"], told["total"]["unexplained"]) == (12, 0)
    assert {each["ended"] for each in told["results"]} == {"completed"}
    assert told["total"]["shared_bytes"] > told["total"]["sent_bytes"] / 2
    page = (run / "index.html").read_text()
    assert page.count("<svg") == 6
    assert "<script" not in page
    assert "| feature-durations | 1/1 |" in (run / "table.md").read_text()
    attempt = run / "attempts" / "fix-date-ranges" / "1"
    patch = (attempt / "changes.patch").read_text()
    assert "+            merged[-1] = (merged[-1][0], max(merged[-1][1], last))" in patch
    threads = {each["task"]: each["thread"] for each in told["results"]}
    trajectory = json.loads((attempt / "trajectory.json").read_text())
    assert trajectory["session_id"] == threads["fix-date-ranges"]


def test_what_is_over_is_not_run_again_and_a_changed_run_is_refused(treadle, run):
    task = write_task(treadle.project / "mend")
    words = ("eval", task, "--scripted", "-o", run)
    treadle(*words)
    before = (run / "attempts" / "mend" / "1" / "result.json").read_bytes()
    assert treadle(*words).err.splitlines() == [str(run / "index.html")]
    assert (run / "attempts" / "mend" / "1" / "result.json").read_bytes() == before
    refused = treadle.refused(*words, "--max-steps", "3", code=2)
    assert "--max-steps not given, not 3" in refused
    (task / "tests" / "test.sh").write_text("true")
    assert "other files of the task 'mend'" in treadle.refused(*words, code=2)


def test_an_attempt_that_was_not_graded_is_run_again_when_it_is_wanted(treadle, run):
    task = write_task(treadle.project / "mend", test="test -e /tests/x && echo 1 > /nowhere")
    words = ("eval", task, "--scripted", "-o", run)
    shown = treadle(*words)
    assert "not solved (the tests wrote neither" in shown.err
    first = result(run, "mend")
    treadle(*words)
    assert result(run, "mend") == first
    treadle(*words, "--again")
    assert result(run, "mend")["thread"] != first["thread"]


def test_attempts_have_limits_and_a_part_of_the_reward_is_not_a_solution(treadle, run):
    task = write_task(treadle.project / "mend")
    model = scripted(treadle, {"calls": [shell("true")], "times": 0})
    words = ("--model", model, "--max-steps", "2", "--attempts", "2", "--json")
    lines = treadle("eval", task, "-o", run, *words).json_lines
    over = [each["result"] for each in lines if each["type"] == "attempt.over"]
    assert [each["attempt"] for each in over] == [1, 2]
    assert {(each["ended"], each["reward"], each["solved"]) for each in over} == {
        ("limit", 0.25, False)
    }
    assert over[0]["figures"]["requests"] == 2
    assert lines[-1]["total"]["attempts"] == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nowhere",), "there is no such directory"),
        (("mend/tests",), "has no 'task.toml'"),
        (("mend", "--scripted", "--model", "x:y"), "leave --model out"),
        (("mend", "--scripted", "-C", "."), "--cwd cannot be given"),
        (("mend", "--scripted", "--yolo"), "the box is the sandbox"),
        (("mend", "--max-cost", "1", "--model", "scripted:demo"), "the price of"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(treadle, run, words, why):
    write_task(treadle.project / "mend")
    refused = treadle.attempt("eval", *words, "-o", run)
    assert (refused.code, refused.out) == (2, b"")
    assert why in refused.err
    assert not list(run.glob("attempts/*/*/result.json"))


@pytest.fixture
def slow(treadle: Treadle) -> str:
    """A model whose first command waits; when it goes on it only says that it is done."""
    return scripted(
        treadle,
        {"when": "Mend thing.txt", "calls": [shell("echo mended > thing.txt; " + SLOW)]},
        {"when": "", "text": "Mended.", "times": 0},
    )


def begun(treadle: Treadle, run: Path, model: str) -> Process:
    process = Process(
        [SCRIPT, "eval", "mend", "-o", str(run), "--model", model, "--json"],
        cwd=treadle.project,
        env=treadle.env,
    )
    effects = run / "attempts" / "mend" / "1" / "workspace" / "effects.txt"
    while not effects.exists():
        os.sched_yield()
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_or_killed_goes_on_in_the_middle_of_a_turn(
    treadle, run, slow, number
):
    write_task(treadle.project / "mend")
    with begun(treadle, run, slow) as process:
        other = treadle.refused("eval", "mend", "-o", run, "--model", slow, code=2)
        assert "another process works in" in other
        process.send_signal(number)
        assert process.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    assert not (run / "attempts" / "mend" / "1" / "result.json").exists()
    lines = treadle("eval", "mend", "-o", run, "--model", slow, "--json").json_lines
    assert lines[0] == {"type": "attempt.started", "task": "mend", "attempt": 1, "goes_on": True}
    found = result(run, "mend")
    assert (found["sittings"], found["reward"], found["ended"]) == (2, 1.0, "completed")
    workspace = run / "attempts" / "mend" / "1" / "workspace"
    assert (workspace / "effects.txt").read_text() == "began\n"


def test_commands_run_in_the_usual_sandbox_where_that_is_wanted(treadle, run):
    task = write_task(treadle.project / "mend")
    treadle("eval", task, "--scripted", "-o", run, "--commands-in", "sandbox")
    assert result(run, "mend")["reward"] == 1.0


@pytest.mark.parametrize("where", ["box", "sandbox"])
def test_nothing_of_the_project_that_a_run_lies_in_reaches_a_task(treadle, run, where):
    task = write_task(treadle.project / "mend")
    (task / "environment" / "AGENTS.md").write_text("Speak of things gently.\n")
    script = "[[answer]]\n[[answer.calls]]\nname = 'exec_command'\n"
    script += (
        "arguments = { cmd = 'git rev-parse --show-toplevel 2>&1; echo mended > thing.txt' }\n"
    )
    (task / "solution" / "script.toml").write_text(f"{script}[[answer]]\ntext = 'Mended.'\n")
    treadle("eval", task, "--scripted", "-o", run, "--commands-in", where)
    shown = treadle("show", result(run, "mend")["thread"], "--all", "--json").text
    assert "Speak of things gently." in shown
    assert "Keep it simple." not in shown
    assert "not a git repository" in shown
