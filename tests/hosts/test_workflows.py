"""Turns as workflows of DBOS and of Temporal, by the real engines."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from treadle.hosts.dbos import JsonSerializer
from treadle.hosts.workflow_turns import WorkflowError
from treadle.store import SqliteStore

from .temporal_server import find_temporal, temporal_server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def temporal():
    with temporal_server() as address:
        yield address


@pytest.fixture
def starter(tmp_path):
    """Start executors, and end those that are left."""
    with ExitStack() as stack:

        def start(engine: str, at: str, seconds: float, *enqueued: str) -> subprocess.Popen[str]:
            told = (engine, at, str(tmp_path), str(seconds), *enqueued)
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.hosts.workflow_host", *told],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def start_temporal(starter, temporal):
    return partial(starter, "temporal", temporal)


@pytest.fixture(params=["dbos", "temporal"])
def start(request, starter, tmp_path):
    if request.param == "dbos":
        return partial(starter, "dbos", f"sqlite:///{tmp_path / 'dbos.sqlite'}")
    return request.getfixturevalue("start_temporal")


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str], turn: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{turn}\n")
    process.stdin.flush()
    return line(process)


async def effects(place: Path, count: int) -> list[str]:
    """Who has acted, as soon as it was done so often."""
    file = place / "effects.txt"
    while not file.exists() or len(file.read_text().split()) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return file.read_text().split()


@pytest.mark.timeout(180)
async def test_turns_of_executors_that_end_go_on_in_others_and_act_once(start, tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create(cwd=str(tmp_path))).id
        turns = [f"{thread[-6:]}-{number}" for number in "12"]
        killed = start(600, f"{thread}={turns[0]}")
        await effects(tmp_path, 1)
        killed.kill()
        ended = start(600, f"{thread}={turns[1]}")
        await effects(tmp_path, 2)
        ended.terminate()
        assert ended.wait() != 0
        last = start(0)
        assert line(last) == "ready"
        for turn in turns:
            assert ask(last, turn) == f"{turn} completed It is done."
        assert last.stdin is not None
        last.stdin.close()
        assert last.wait() == 0
        # A call that may have acted is not made again.
        assert await effects(tmp_path, 2) == [str(killed.pid), str(ended.pid)]
        found = [(turn.id, turn.state) for turn in await store.turns(thread)]
        assert found == [(turn, "completed") for turn in turns]
        bodies = [bytes(entry.body) for entry in await store.read(thread)]
        assert sum(b"Outcome unknown" in body for body in bodies) == 1
        assert [info.id for info in await store.threads()] == [thread]


@pytest.mark.timeout(180)
async def test_a_workflow_that_is_cancelled_interrupts_its_turn(temporal, start_temporal, tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create(cwd=str(tmp_path))).id
        turn = f"{thread[-6:]}-1"
        host = start_temporal(600, f"{thread}={turn}")
        assert line(host) == "ready"
        await effects(tmp_path, 1)
        cancel = ("workflow", "cancel", "--workflow-id", turn, "--address", temporal)
        await asyncio.to_thread(subprocess.run, [find_temporal(), *cancel], stdout=subprocess.PIPE)
        assert ask(host, turn) == f"{turn} did not end: Workflow cancelled"
        assert [each.state for each in await store.turns(thread)] == ["aborted"]


def test_what_dbos_keeps_is_json():
    serializer = JsonSerializer()
    for value in ({"args": ["thr_1", "turn_1", "hi"], "kwargs": {}}, None, [1, "two"], "!"):
        assert serializer.deserialize(serializer.serialize(value)) == value
    kept = serializer.deserialize(serializer.serialize(ValueError("no")))
    assert isinstance(kept, WorkflowError)
    assert str(kept) == "ValueError: no"
