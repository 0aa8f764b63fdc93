from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from . import dying
from .arena import Arena, running

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def marker(ground: Arena) -> Iterator[str]:
    """An argument that tells the commands of a test from all others."""
    name = f"8000.{os.getpid()}{ground.uid}"
    yield name
    for left in running(name):
        with suppress(ProcessLookupError):
            os.kill(int(left), signal.SIGKILL)


def die(ground: Arena, marker: str, pauses: list[float], gate: str = "") -> None:
    deaths = dying.Deaths(
        uid=ground.uid,
        search=ground.search,
        workspace=str(ground.workspace),
        home=str(ground.home),
        argv=["sh", "-c", f"echo >> ran; sleep {marker}", marker],
        pauses=pauses,
        gate=gate,
    )
    command = [sys.executable, "-m", dying.__name__, msgspec.json.encode(deaths).decode()]
    subprocess.run(command, check=True, cwd=REPOSITORY)


def survivors(marker: str) -> list[str]:
    """What is still there after all that was on its way has had its time."""
    deadline = time.monotonic() + 60
    while (left := running(marker)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def test_a_command_that_is_tied_to_a_dead_treadle_never_runs(ground: Arena, marker: str):
    die(ground, marker, [0.0], gate=str(ground.outside / "gate"))
    assert survivors(marker) == []
    assert not (ground.workspace / "ran").exists()


def test_whenever_treadle_is_killed_no_command_is_left(ground: Arena, marker: str):
    die(ground, marker, [round_ * 0.0005 for round_ in range(40)])
    assert survivors(marker) == []


def test_a_command_holds_no_descriptor_but_its_own(ground: Arena):
    assert ground.run("ls", "/proc/self/fd").stdout.split() == ["0", "1", "2", "3"]


def test_what_a_command_leaves_behind_is_collected(ground: Arena):
    dead = "grep -qs '^State:.Z' /proc/[0-9]*/status"
    done = ground.shell(f"(true &); (sleep 0.01 &); while {dead}; do :; done; echo collected")
    assert (done.code, done.stdout, done.stderr) == (0, "collected\n", "")


@pytest.mark.parametrize("unconfined", [False, True])
def test_a_broken_pipe_ends_a_command_as_in_any_shell(ground: Arena, unconfined: bool):
    done = ground.shell("yes | head -1; echo ${PIPESTATUS[@]}", unconfined=unconfined)
    assert (done.stdout, done.stderr) == ("y\n141 0\n", "")
