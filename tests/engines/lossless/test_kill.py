from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.fork_server import run
from tests.harness.scenes import last, unpaired_calls
from treadle.context.rebuild import rebuild_ledger
from treadle.store import SqliteStore

from .dying import POINTS
from .scenes import Speaker, check, keeping, summaries, talk, words

ROOT = Path(__file__).parents[3]


def killed(place: Path, point: str, times: int) -> None:
    """A process ran turns in `place` until it met `point` for the given time."""
    command = [sys.executable, "-m", "tests.engines.lossless.dying", str(place), point, str(times)]
    done = run(command, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


async def the_thread(place: Path) -> str:
    async with await SqliteStore.open(place / "home") as store:
        (found,) = await store.threads()
        return found.id


@pytest.mark.parametrize(
    ("point", "times"),
    [
        *((point, 1) for point in POINTS),
        ("after lease_job", 4),
        ("after add_node", 6),
        ("after publish", 3),
    ],
)
async def test_nothing_is_lost_wherever_the_process_dies(tmp_path: Path, point: str, times: int):
    await asyncio.to_thread(killed, tmp_path, point, times)
    async with keeping(tmp_path, Speaker(), await the_thread(tmp_path)) as (thread, engine):
        shown = thread.request().body
        await check(thread, engine.library)
        for number in range(100, 104):
            heard = await talk(thread, f"{number}: {words(number, 90)} look")
            assert last(heard).status == "completed"
            await check(thread, engine.library)
        assert thread.request().body != shown
        assert await unpaired_calls(thread) == []
        rebuilt = await rebuild_ledger(thread.store, thread.index, thread.id, thread.registry)
        assert rebuilt.differing == ()
        assert not [row for row in await thread.index.rows(thread.id) if row.unexplained]


@pytest.mark.parametrize("point", ["before add_node", "after publish"])
async def test_a_view_is_the_same_before_and_after_the_engine_is_asked_again(
    tmp_path: Path, point: str
):
    await asyncio.to_thread(killed, tmp_path, point, 2)
    name = await the_thread(tmp_path)
    async with keeping(tmp_path, Speaker(), name) as (thread, _):
        first, names = thread.request().body, summaries(thread)
    async with keeping(tmp_path, Speaker(), name) as (thread, _):
        assert (thread.request().body, summaries(thread)) == (first, names)
