from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

import treadle
from treadle.evaluation.run_directory import AttemptPlace
from treadle.evaluation.task import Task, read_task
from treadle.evaluation.task_box import Boxes, TaskBox
from treadle.evaluation.verify import grade
from treadle.evaluation.workspace_files import NotPrepared, prepare_files, write_patch

from .small_tasks import write_task


@pytest.fixture
def boxes(tmp_path: Path) -> Boxes:
    return Boxes(tmp_path / "home")


@pytest.fixture
def box(boxes: Boxes, tmp_path: Path) -> TaskBox:
    (tmp_path / "files").mkdir()
    return boxes.box(tmp_path / "files", "/app", env={"COLOUR": "red"})


def names(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir())


async def said(box: TaskBox, line: str) -> str:
    return (await box.run("bash", "-c", line, seconds=20)).output.decode().strip()


async def test_a_box_has_the_paths_of_the_task_and_nothing_else_of_this_machine(box, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("mine")
    assert await said(box, "pwd; echo $COLOUR; echo $HOME") == "/app\nred\n/tmp"
    assert "No such file" in await said(box, f"cat {secret}")
    assert await said(box, "env | grep -c TREADLE") == "0"
    assert "Read-only" in await said(box, "touch /usr/here")
    assert (await box.run("python3", "-c", "import json", seconds=20)).code == 0
    await said(box, "echo kept > here; echo lost > /tmp/here")
    assert names(tmp_path / "files") == ["here"]
    network = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    assert (await box.run("python3", "-c", network, seconds=20)).code == 1


async def test_a_command_that_does_not_end_is_ended(box):
    ended = await box.run("sh", "-c", "echo begun; sleep 600", seconds=0.5)
    assert (ended.code, ended.output) == (None, b"begun\n")


async def attempted(boxes: Boxes, tmp_path: Path, **task: str) -> tuple[AttemptPlace, Task]:
    place = AttemptPlace(tmp_path / "attempt")
    task_read = read_task(write_task(tmp_path / "mend", **task))
    await prepare_files(boxes, task_read, place)
    return place, task_read


async def test_a_patch_holds_what_was_changed_also_bytes_that_are_no_text(boxes, tmp_path):
    place, task = await attempted(
        boxes, tmp_path, dockerfile="WORKDIR /app\nCOPY . .\nRUN git init -q . && rm -f x\n"
    )
    workspace = place.workspace
    assert names(workspace) == [".git", "thing.txt"]
    (workspace / "thing.txt").unlink()
    (workspace / "picture").write_bytes(bytes(range(256)) * 4)
    (workspace / "näme\n.txt").write_text("x")
    size = await write_patch(boxes, task, place)
    again = tmp_path / "again"
    again.mkdir()
    (again / "thing.txt").write_text("broken\n")
    box = boxes.box(again, "/app", mounts=((place.path, "/from", False),))
    applied = await box.run("git", "apply", "/from/changes.patch", seconds=20)
    assert (applied.code, place.patch.stat().st_size) == (0, size), applied.output
    assert names(again) == ["näme\n.txt", "picture"]
    assert (again / "picture").read_bytes() == bytes(range(256)) * 4


async def test_a_step_that_fails_says_which(boxes, tmp_path):
    with pytest.raises(NotPrepared, match="RUN 'echo no >&2; exit 3' failed: no"):
        await attempted(boxes, tmp_path, dockerfile="RUN echo no >&2; exit 3\n")


@pytest.mark.parametrize(
    ("test", "reward", "error"),
    [
        ("echo 1 > /logs/verifier/reward.txt; exit 1", 1.0, ""),
        ('echo \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json', 0.5, ""),
        ("true", None, "neither reward.txt nor reward.json"),
        ("echo high > /logs/verifier/reward.txt", None, "cannot be read"),
        ("echo nan > /logs/verifier/reward.txt", None, "no number"),
        ("ln -s /app/thing.txt /logs/verifier/reward.txt", None, "is a link"),
        ("sleep 600", None, "did not end in 1 seconds"),
        ("touch /tests/x || echo 0 > /logs/verifier/reward.txt", 0.0, ""),
    ],
)
async def test_what_tests_say_is_read_and_what_they_do_not_say_is_no_reward(
    boxes, tmp_path, test, reward, error
):
    place, task = await attempted(
        boxes, tmp_path, test=test, settings="[verifier]\ntimeout_sec = 1\n"
    )
    verdict = await grade(boxes, task, place)
    assert verdict.reward == reward
    assert error in verdict.error
    assert bool(verdict.error) == (reward is None)


async def test_all_of_treadle_runs_in_a_container_that_is_the_sandbox(boxes, tmp_path):
    script = '[[answer]]\n[[answer.calls]]\nname = "exec_command"\n'
    script += 'arguments = { cmd = "echo made > here" }\n[[answer]]\ntext = "Done."\n'
    place = tmp_path / "files"
    place.mkdir()
    (place / "script.toml").write_text(script)
    packages = Path(msgspec.__file__).parent.parent
    source = Path(treadle.__file__).parent.parent
    mounts = ((packages, "/packages", False), (source, "/source", False))
    env = {"PYTHONPATH": "/source:/packages", "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin"}
    box = boxes.box(place, "/app", env=env, mounts=mounts)
    asked = ("exec", "--model", "scripted:script.toml", "--json", "make it")
    command = ("python3", "-m", "treadle", "--home", "/tmp/home")
    # There is no bubblewrap in it, and without a word nothing runs without a sandbox.
    refused = await box.run(*command, *asked, seconds=60)
    assert b"sandbox" in refused.output
    assert names(place) == ["script.toml"]
    done = await box.run(*command, *asked, "--yolo", seconds=60)
    assert done.code == 0, done.output
    assert (place / "here").read_text() == "made\n"
    last = json.loads(done.output.splitlines()[-1])
    assert (last["type"], last["status"], last["text"]) == ("turn.completed", "completed", "Done.")
