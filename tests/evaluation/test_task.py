from __future__ import annotations

import shutil

import pytest

from treadle.evaluation.image_steps import Copied, Ran, read_image_steps
from treadle.evaluation.task import MalformedTask, find_tasks, read_task

from .small_tasks import write_task


def test_a_task_says_what_it_is_with_the_usual_limits_where_it_says_none(tmp_path):
    settings = '[agent]\ntimeout_sec = 12.5\n[environment]\ncpus = 2\n[metadata]\ntags = ["a"]\n'
    task = read_task(write_task(tmp_path / "mend", settings=settings))
    assert (task.name, task.agent_seconds, task.verifier_seconds) == ("mend", 12.5, 900.0)
    assert (task.image.workdir, task.network) == ("/app", False)
    assert task.metadata == {"tags": ["a"]}


def test_a_directory_of_tasks_is_its_tasks_and_the_digest_is_of_the_files(tmp_path):
    for name in ("b", "a"):
        write_task(tmp_path / name)
    first, second = find_tasks([tmp_path, tmp_path / "a"])
    assert (first.name, second.name) == ("a", "b")
    assert first.digest == second.digest
    (tmp_path / "a" / "tests" / "more.py").write_text("")
    assert read_task(tmp_path / "a").digest != first.digest


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("task.toml", "= 1", "no TOML"),
        ("task.toml", "[agent]\ntimeout_sec = 0\n", "agent.timeout_sec"),
        ("task.toml", '[verifier]\ntimeout_sec = "1"\n', "verifier.timeout_sec"),
        ("task.toml", "[[steps]]\nname = 'a'\n", "needs Harbor"),
        ("task.toml", "[environment]\ndocker_image = 'x'\n", "environment.docker_image"),
        ("instruction.md", " \n", "is empty"),
        ("tests/test.sh", None, "there is no 'tests/test.sh'"),
        ("instruction.md", None, "cannot read 'instruction.md'"),
        ("environment", None, "no directory 'environment'"),
        ("environment/docker-compose.yaml", "", "needs a container engine"),
        ("environment/Dockerfile", "ADD http://x /y", "ADD needs a container engine"),
        ("environment/Dockerfile", "WORKDIR /usr/x", "cannot be the workspace"),
        ("environment/Dockerfile", "COPY --from=a b c", "without options"),
        ("environment/Dockerfile", "COPY a /etc/b", "leaves the WORKDIR"),
        ("environment/Dockerfile", "COPY ../a b", "leaves the directory"),
    ],
)
def test_a_task_that_cannot_be_run_is_refused_with_the_reason(tmp_path, name, text, why):
    file = write_task(tmp_path / "mend") / name
    if text is not None:
        file.write_text(text)
    elif file.is_dir():
        shutil.rmtree(file)
    else:
        file.unlink()
    with pytest.raises(MalformedTask, match=r"'.*mend' cannot be run") as caught:
        find_tasks([tmp_path / "mend"])
    assert why in str(caught.value)


def test_two_tasks_of_one_name_are_refused(tmp_path):
    places = [write_task(tmp_path / part / "mend") for part in "ab"]
    with pytest.raises(MalformedTask, match="the same name"):
        find_tasks(places)


def test_of_a_dockerfile_the_files_the_variables_and_the_commands_count():
    text = """\
        # A comment.
        FROM python:3.13 AS base
        ENV COLOUR=red "SIZE=very large"
        WORKDIR /srv/project/
        COPY one two /srv/project/parts/
        COPY . .
        RUN git init -q && \\
            touch made
    """
    found = read_image_steps(text)
    assert (found.workdir, found.env) == ("/srv/project", {"COLOUR": "red", "SIZE": "very large"})
    copied, whole, ran = found.steps
    assert copied == Copied(("one", "two"), "parts", is_directory=True)
    assert whole == Copied((".",), ".", is_directory=True)
    assert isinstance(ran, Ran)
    assert ran.line.split() == ["git", "init", "-q", "&&", "touch", "made"]
