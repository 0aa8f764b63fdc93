from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.scripts import scripted
from tests.cli.terminal import Treadle
from treadle.evaluation.task import find_tasks
from treadle.testing.script import load_script

TASKS = Path(__file__).parent.parent.parent / "evaluation" / "tasks"


@pytest.fixture
def treadle(tmp_path: Path) -> Treadle:
    (tmp_path / "project").mkdir()
    return Treadle(tmp_path / "home", tmp_path / "project")


def test_every_task_of_ours_can_be_read_and_says_what_it_is():
    tasks = find_tasks([TASKS])
    assert len(tasks) >= 14
    assert {task.metadata["kind"] for task in tasks} == {"fix", "feature", "refactor", "long"}
    for task in tasks:
        script = load_script(task.script)
        assert script.answers[-1].text, task.name
        assert task.name.startswith(task.metadata["kind"])


def test_tests_of_ours_give_nothing_for_no_work(treadle, tmp_path):
    model = scripted(treadle, {"text": "I would rather not.", "times": 0})
    names = ("feature-expiring-cache", "fix-lost-updates", "refactor-rename-api", "long-hotel")
    run = tmp_path / "run"
    treadle("eval", *(TASKS / name for name in names), "--model", model, "-o", run, "-n", "2")
    told = json.loads((run / "results.json").read_text())
    assert {each["task"]: each["reward"] for each in told["results"]} == dict.fromkeys(names, 0.0)
    assert {each["ended"] for each in told["results"]} == {"completed"}
