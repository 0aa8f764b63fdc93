"""Crashes: Treadle is killed where it hurts most, and what is left is audited with sqlite3.

Weakness: after the kills, an entry that was acknowledged is taken out of the log, and an effect
is written down twice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from attack.attempt import Area
from attack.crashes import audit, kill_workers, stage
from attack.ground import Ground, Heard, command, listen
from attack.processes import find_running, fork
from treadle.harness.events import StepStarted, ToolStarted
from treadle.testing.script import Answer, Call, Script
from treadle.testing.scripted import ScriptedModel
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool

__all__ = ["AREA"]

AREA = Area("crash", "kills at the worst moments", "the log and the world are falsified")

ENGINES = {"the linear engine": "linear", "the lossless engine": "lossless"}


@AREA.each(ENGINES, seconds=180, proof=True)
def kill_at_random(ground: Ground, engine: str) -> str:
    """Treadle is killed eight times at random moments, and works on each time.

    Through if something acknowledged is lost or changed, a call has not exactly one result, an
    effect happened twice, a turn stays open, or a request that left is not in the log.
    """
    with stage(ground, engine) as scene:
        for _ in range(4):  # on a busy machine workers die before they have done much
            kill_workers(scene, 4 if ground.weak else 8)
            if len(scene.notes("requests")) >= 8:
                break
        status = asyncio.run(scene.work(turns=1))
        if ground.weak:
            last = scene.notes("items")[-1]["seq"]
            with closing(sqlite3.connect(ground.home / "log.db")) as log, log:
                log.execute("DELETE FROM entries WHERE id & 4294967295 = ?", (last,))
            scene.note("effects", what=scene.notes("effects")[0]["what"])
        wrong = audit(scene)
        if len(scene.notes("requests")) < 8:
            raise AssertionError("too little happened to say anything")
    if status != "completed":
        wrong.append(f"the last turn ended as {status}")
    return "; ".join(wrong[:5])


LONG = "many words " * 3_000


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _deadly(mark: Path) -> Tool:
    @tool
    async def act(what: str) -> str:
        """Acts."""
        with mark.open("a") as file:
            file.write(f"{what}\n")
        if what == "die":
            _die()
        return "ok"

    return act


async def _one_turn(
    ground: Ground, thread: str | None, answers: tuple[Answer, ...], said: str, **options: object
) -> Heard:
    """Run a turn with the tool that may kill; write down the name of the thread first."""
    turn_id = options.pop("turn_id", None)
    die_at = options.pop("die_at", ())
    model = ScriptedModel(Script(answers=answers))
    heard = Heard()
    try:
        async with ground.open(
            model, thread, tools=(_deadly(ground.top / "deeds"),), **options
        ) as opened:
            heard.thread = opened.id
            (ground.top / "thread").write_text(opened.id)
            if die_at:
                async for event in opened.run(said, turn_id=turn_id):  # type: ignore[arg-type]
                    if isinstance(event, die_at):  # type: ignore[arg-type]
                        _die()
            else:
                await listen(opened, heard, said, turn_id=turn_id)
    finally:
        await model.close()
    return heard


def _killed(work: object) -> None:
    """Run something that kills its own process."""
    pid = fork(work)  # type: ignore[arg-type]
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise AssertionError("the process was to be killed, and ended otherwise")


@AREA.each(ENGINES, quick="the linear engine", seconds=40)
def kill_inside_a_call_with_a_full_view(ground: Ground, engine: str) -> str:
    """Treadle is killed while a call runs and the view is full, so that the next turn compacts.

    Through if the thread cannot go on, or the call is answered more or less than once.
    """
    ground.describe_model("auto_compact_token_limit = 6000")
    full = (Answer(text=LONG), Answer(text="a summary", times=0))
    first = asyncio.run(_one_turn(ground, None, full, "write much", engine=engine))
    die = Answer(calls=(Call(name="act", arguments={"what": "die"}),))
    # The summary, if one is made before the turn, is a plain answer too.
    script = (Answer(when="now act", calls=die.calls), Answer(text="a summary", times=0))
    _killed(lambda: asyncio.run(_one_turn(ground, first.thread, script, "now act", engine=engine)))
    answers = (Answer(text="It goes on.", times=0),)
    for words in ("go on", "and on"):
        heard = asyncio.run(_one_turn(ground, first.thread, answers, words, engine=engine))
        if heard.ends[-1].text != "It goes on.":
            return f"the turn ended as {heard.ends[-1].status}: {heard.ends[-1].error}"
    deeds = (ground.top / "deeds").read_text().split()
    return "" if deeds == ["die"] else f"the deeds were {deeds}"


@AREA.attempt(quick=True, seconds=30, proof=True)
def ask_again_for_a_turn_that_crashed(ground: Ground) -> str:
    """Turn A is killed at its start, turn B too, and then the host asks for A again.

    Through if A acts then, or is told as completed. (Weak: it asks under another name.)
    """
    act = Answer(calls=(Call(name="act", arguments={"what": "A"}),))
    ok = Answer(text="ok", times=0)
    first = asyncio.run(_one_turn(ground, None, (ok,), "hello"))
    for name in ("A", "B"):
        _killed(
            lambda name=name: asyncio.run(
                _one_turn(
                    ground,
                    first.thread,
                    (act, ok),
                    f"do {name}",
                    turn_id=name,
                    die_at=(StepStarted,),
                )
            )
        )
    name = "C" if ground.weak else "A"
    heard = asyncio.run(_one_turn(ground, first.thread, (act, ok), "do A", turn_id=name))
    deeds = ground.top / "deeds"
    if deeds.exists():
        return f"it acted: {deeds.read_text().split()}"
    return "it was told as completed" if heard.ends[-1].status == "completed" else ""


@AREA.attempt(seconds=30)
def fork_a_thread_with_an_open_turn(ground: Ground) -> str:
    """A thread is forked whose turn a crash left open, and the fork is asked for that turn.

    Through if the fork acts.
    """
    act = Answer(calls=(Call(name="act", arguments={"what": "A"}),))
    ok = Answer(text="ok", times=0)
    _killed(
        lambda: asyncio.run(
            _one_turn(ground, None, (act, ok), "do A", turn_id="A", die_at=(StepStarted,))
        )
    )
    thread = (ground.top / "thread").read_text()

    async def forked() -> str:
        model = ScriptedModel(Script(answers=(ok,)))
        async with ground.open(model, thread) as opened:
            made = await opened.fork()
        await model.close()
        return made

    copy = asyncio.run(forked())
    asyncio.run(_one_turn(ground, copy, (act, ok), "do A", turn_id="A"))
    deeds = ground.top / "deeds"
    return f"it acted: {deeds.read_text().split()}" if deeds.exists() else ""


@AREA.attempt(seconds=60, proof=True)
def leave_commands_behind(ground: Ground) -> str:
    """Treadle is killed ten times while commands run that started others in their own sessions.

    Through if one of them still runs ten seconds later. (Weak: without a sandbox.)
    """
    mark = f"9100.{os.getpid()}"
    script = f"sleep {mark} & (setsid sleep {mark} &); sleep {mark}"
    sandbox = "danger-full-access" if ground.weak else "workspace-write"

    async def work() -> None:
        model = ScriptedModel(
            Script(answers=(Answer(calls=(command(script, yield_time_ms=5000),)),))
        )
        async with ground.open(model, sandbox=sandbox) as thread:
            async for event in thread.run("go"):
                if isinstance(event, ToolStarted):
                    (ground.top / "up").touch()

    for number in range(3 if ground.weak else 10):
        (ground.top / "up").unlink(missing_ok=True)
        pid = fork(lambda: asyncio.run(work()))
        while not (ground.top / "up").exists():
            time.sleep(0.01)
        time.sleep(0.3 if ground.weak else number * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    deadline = time.monotonic() + (0.5 if ground.weak else 10)
    while (left := find_running(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for each in left:
        os.kill(each, signal.SIGKILL)
    return f"{len(left)} processes are left" if left else ""
