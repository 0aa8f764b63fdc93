from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.engines.notebook import Notebook
from tests.fork_server import run
from tests.harness.scenes import log, processes, unpaired_calls
from treadle import Thread
from treadle.engines.conversation import visible_rows
from treadle.harness.codex.rollout_reader import read_turn
from treadle.harness.events import Retrying
from treadle.testing.contracts.answers import wait_until
from treadle.testing.fake import FakeServer
from treadle.testing.script import Break, Script

from .dying_codex import MOMENTS, write_dying_codex
from .kill_scenes import harness_of, looking, open_thread, script
from .scenes import codex, hear, last, of, surroundings

ROOT = Path(__file__).parents[3]
OUR_TOOL_RUNS = "our tool runs"
ANSWER_STREAMS = "an answer streams"
MARK = f"300.{os.getpid()}"
COMMAND_RUNS = "a command of Codex's runs"

WHOLE = [
    "user: cherry",
    "call look",
    "output a duck",
    "call exec_command",
    "output quack",
    "assistant: On cherry.",
]
_FATES = {"completed": "accepted", "aborted": "aborted", "failed": "failed"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    surroundings(tmp_path)
    return tmp_path


def script_for(moment: str) -> Script:
    """A model that is still at it when the moment comes."""
    stall = Break(events=3) if moment == ANSWER_STREAMS else None
    return script(f"sleep {MARK}" if moment == COMMAND_RUNS else "echo quack", stall=stall)


async def begun(place: Path, base_url: str) -> str:
    """A thread that has a past elsewhere, so that Codex must be told of it."""
    async with open_thread(place, base_url, harness="treadle") as (thread, _):
        assert await said(thread, "apricot") == "completed"
        return thread.id


async def said(thread: Thread, words: str) -> str:
    """How a turn ended."""
    return last(await hear(thread, words, turn_id=words)).status


async def turn_of(thread: Thread, words: str) -> list[str]:
    """What the log holds from an input on, up to the next; of outputs the last line."""
    told = [_short(line) for line in await log(thread) if "<" not in line]
    start = told.index(f"user: {words}")
    later = [at for at, line in enumerate(told) if line.startswith("user: ") and at > start]
    return told[start : later[0] if later else None]


def _short(line: str) -> str:
    last_line = line.splitlines()[-1]
    return f"output {last_line.removeprefix('output ')}" if line.startswith("output ") else line


async def lost_and_doubled_nothing(thread: Thread, engine: Notebook) -> None:
    """Every call has one result, every item stands once, and the engine knows each turn once."""
    assert await unpaired_calls(thread) == []
    entries = [entry for entry in await thread.store.read(thread.id) if entry.kind == "item"]
    assert max(Counter(entry.id for entry in entries if entry.id).values()) == 1
    turns = {turn.number: turn for turn in await thread.store.turns(thread.id)}
    ended = [number for number, turn in turns.items() if turn.state == "completed"]
    assert [noted.number for noted in engine.commits] == ended
    rows = [row for row in await visible_rows(thread.store, thread.id) if not row.contextual]
    told = [item for noted in engine.commits for item in noted.items]
    assert told == [(row.seq, _FATES[turns[row.turn].state]) for row in rows]
    await thread.log.done.settle()
    waiting = await thread.store.outbox(thread=thread.id)
    assert {row.topic for row in waiting} <= {"codex"}


UNKNOWN = "output Outcome unknown: the run ended before this call reported. It may have run."
SOMEHOW = "assistant: On cherry, somehow."
SURVIVED = dict.fromkeys(MOMENTS, WHOLE) | {
    "a call was made": [*WHOLE[:2], UNKNOWN, SOMEHOW],
    OUR_TOOL_RUNS: [*WHOLE[:2], UNKNOWN, SOMEHOW],
    COMMAND_RUNS: [*WHOLE[:4], UNKNOWN, SOMEHOW],
}
"""What the turn comes to when the app-server dies at a moment."""
UNHARMED = {"all is said", "a turn is over"}
"""Moments after which nothing has to be asked again."""


@pytest.mark.parametrize("moment", SURVIVED)
async def test_a_turn_survives_the_death_of_the_app_server(place: Path, moment: str):
    async with FakeServer(script_for(moment)) as server:
        name = await begun(place, server.base_url)
        harness = harness_of(
            place, server.base_url, write_dying_codex(place, codex(), "codex", moment)
        )

        async def kill() -> None:
            (running,) = harness.servers.servers
            if moment == OUR_TOOL_RUNS and running.generation == 1 and running.pid:
                os.killpg(running.pid, signal.SIGKILL)
                await asyncio.Event().wait()

        async with open_thread(
            place, server.base_url, name, harness=harness, tools=(looking(kill),)
        ) as (thread, engine):
            heard = await hear(thread, "cherry", turn_id="cherry")
            assert last(heard).status == "completed"
            assert last(heard).text == SURVIVED[moment][-1].removeprefix("assistant: ")
            assert len(of(heard, Retrying)) == (moment not in UNHARMED)
            assert await said(thread, "damson") == "completed"
            assert await turn_of(thread, "cherry") == SURVIVED[moment]
            await lost_and_doubled_nothing(thread, engine)
            (running,) = harness.servers.servers
            assert running.generation == 2
        await harness.close()
    await wait_until(lambda: not processes(str(place)) and not processes(MARK))


def killed(place: Path, base_url: str, moment: str) -> None:
    """A process runs the turn until it is killed at a moment."""
    binary = write_dying_codex(place, codex(), "treadle", moment)
    words = [place, base_url, binary, moment]
    command = [sys.executable, "-m", "tests.harness.codex.kill_scenes", *map(str, words)]
    done = run(command, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


CALLED = [*WHOLE[:2], UNKNOWN]
LEFT = {
    "thread/start is not answered": [WHOLE[:1]],
    "thread/start was answered": [WHOLE[:1]],
    "items are being injected": [WHOLE[:1]],
    "items were injected": [WHOLE[:1]],
    # Codex hears of the death a moment later, and may have gone on until then.
    "turn/start was answered": [WHOLE[:1], CALLED],
    "a call was made": [CALLED],
    OUR_TOOL_RUNS: [CALLED],
    "a result is staged": [WHOLE[:3]],
    "a result is not heard": [WHOLE[:3]],
    COMMAND_RUNS: [[*WHOLE[:4], "output aborted by user"]],
    ANSWER_STREAMS: [WHOLE[:5]],
    "all is said": [WHOLE],
    "the end is not written": [WHOLE],
}
"""What may be in the log of a turn whose process was killed at a moment."""
COMPLETE = ("all is said", "the end is not written")
RESUMED = {
    "items were injected": WHOLE,
    "a call was made": [*CALLED, SOMEHOW],
    OUR_TOOL_RUNS: [*CALLED, SOMEHOW],
    "a result is staged": WHOLE,
    "the end is not written": WHOLE,
}
"""What the turn comes to when it is asked for once more."""


@pytest.mark.parametrize("moment", LEFT)
async def test_whoever_takes_up_a_thread_whose_process_was_killed_finds_it_whole(
    place: Path, moment: str
):
    async with FakeServer(script_for(moment)) as server:
        name = await begun(place, server.base_url)
        await asyncio.to_thread(killed, place, server.base_url, moment)
        harness = harness_of(place, server.base_url, codex())
        async with open_thread(place, server.base_url, name, harness=harness) as (thread, engine):
            assert await said(thread, "damson") == "completed"
            assert await turn_of(thread, "cherry") in LEFT[moment]
            states = [turn.state for turn in await thread.store.turns(name)]
            ended = "completed" if moment in COMPLETE else "aborted"
            assert states == ["completed", ended, "completed"]
            await lost_and_doubled_nothing(thread, engine)
        await harness.close()
    await wait_until(lambda: not processes(str(place)) and not processes(MARK))


@pytest.mark.parametrize("moment", RESUMED)
async def test_a_turn_whose_process_was_killed_can_be_asked_for_once_more(place: Path, moment: str):
    async with FakeServer(script()) as server:
        name = await begun(place, server.base_url)
        await asyncio.to_thread(killed, place, server.base_url, moment)
        harness = harness_of(place, server.base_url, codex())
        async with open_thread(place, server.base_url, name, harness=harness) as (thread, engine):
            assert await said(thread, "cherry") == "completed"
            assert await turn_of(thread, "cherry") == RESUMED[moment]
            assert await said(thread, "damson") == "completed"
            await lost_and_doubled_nothing(thread, engine)
        await harness.close()


def killed_with_it(place: Path) -> None:
    """Leave the rollout as an app-server that is killed beside Treadle: no call is answered."""
    for path in place.rglob("rollout-*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        at = next((at for at, line in enumerate(lines) if b'"function_call"' in line), None)
        path.write_bytes(b"".join(lines[: None if at is None else at + 1]))


async def test_a_call_that_only_the_rollout_knows_is_answered_before_the_turn_goes_on(place: Path):
    async with FakeServer(script()) as server:
        name = await begun(place, server.base_url)
        await asyncio.to_thread(killed, place, server.base_url, "a call was made")
        await wait_until(lambda: not processes(str(place)))
        killed_with_it(place)
        harness = harness_of(place, server.base_url, codex())
        async with open_thread(place, server.base_url, name, harness=harness) as (thread, engine):
            assert await said(thread, "cherry") == "completed"
            assert await turn_of(thread, "cherry") == [*CALLED, SOMEHOW]
            assert await said(thread, "damson") == "completed"
            await lost_and_doubled_nothing(thread, engine)
        await harness.close()


def rollout(place: Path, *lines: dict[str, object]) -> str:
    path = place / "rollout.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return str(path)


def test_a_rollout_tells_an_answer_that_was_whole_from_one_that_may_go_on(tmp_path: Path):
    words = {"type": "message", "role": "assistant", "content": []}
    said: dict[str, object] = {"type": "response_item", "payload": words}
    counted: dict[str, object] = {"type": "event_msg", "payload": {"type": "token_count"}}
    over: dict[str, object] = {"type": "event_msg", "payload": {"type": "task_complete"}}
    assert not read_turn(rollout(tmp_path, said), 0).answered
    assert not read_turn(rollout(tmp_path, counted, said), 0).answered
    assert read_turn(rollout(tmp_path, said, counted), 0).answered
    assert read_turn(rollout(tmp_path, said, over), 0).answered
