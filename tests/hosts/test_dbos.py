from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.hosts.dbos import JsonSerializer, WorkflowError
from treadle.store import SqliteStore

ROOT = Path(__file__).parents[2]


def host(place: Path, seconds: float, *enqueued: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.hosts.dbos_host", str(place), str(seconds), *enqueued],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str], turn: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{turn}\n")
    process.stdin.flush()
    return line(process)


def effects(place: Path) -> list[str]:
    file = place / "effects.txt"
    return file.read_text().split() if file.exists() else []


@pytest.mark.timeout(180)
async def test_a_turn_of_a_killed_executor_goes_on_in_another_one_and_acts_once(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create(cwd=str(tmp_path))).id
        with host(tmp_path, 600, f"{thread}=turn-1") as first:
            assert line(first) == "ready"
            while not effects(tmp_path):  # noqa: ASYNC110 - another process acts
                await asyncio.sleep(0.01)
            first.kill()
        with host(tmp_path, 0, f"{thread}=turn-2") as second:
            assert line(second) == "ready"
            assert ask(second, "turn-1") == "turn-1 completed It is done."
            assert ask(second, "turn-2") == "turn-2 completed It is done."
            assert second.stdin is not None
            second.stdin.close()
            assert second.wait() == 0
        # The first call may have acted and is not made again; the second turn has one of its own.
        assert effects(tmp_path) == [str(first.pid), str(second.pid)]
        turns = await store.turns(thread)
        assert [(turn.id, turn.state) for turn in turns] == [
            ("turn-1", "completed"),
            ("turn-2", "completed"),
        ]
        bodies = [bytes(entry.body) for entry in await store.read(thread)]
        assert sum(b"Outcome unknown" in body for body in bodies) == 1
        assert [info.id for info in await store.threads()] == [thread]


def test_what_dbos_keeps_is_json():
    serializer = JsonSerializer()
    for value in ({"args": ["thr_1", "turn_1", "hi"], "kwargs": {}}, None, [1, "two"], "!"):
        assert serializer.deserialize(serializer.serialize(value)) == value
    kept = serializer.deserialize(serializer.serialize(ValueError("no")))
    assert isinstance(kept, WorkflowError)
    assert str(kept) == "ValueError: no"
