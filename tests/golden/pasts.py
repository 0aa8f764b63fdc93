"""Conversations with a past: processes that were killed, and sessions of other agents."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from .basics import forever, weigh
from .drive import Break, Stage, call, imported, says

SAMPLES = Path(__file__).parents[1] / "transfer" / "samples"


async def killed(stage: Stage, url: str, moment: str) -> str:
    """A turn in another process, which is killed at a moment; its thread."""
    command = (sys.executable, "-m", "tests.golden.dying", str(stage.place), url, moment)
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert child.stdout is not None
    name = (await child.stdout.readline()).decode().strip()
    assert (await child.stdout.readline()).decode().strip() == moment
    child.kill()
    await child.wait()
    return name


async def killed_in_a_call(stage: Stage) -> None:
    """A process dies while a tool runs; the next one goes on with the thread."""
    alpha = await stage.provider(
        "alpha",
        "responses",
        says("", call("weigh", what="a"), reasoning="First this."),
        says("", call("forever"), call("weigh", what="b")),
        says("Going on."),
        says("More."),
    )
    name = await killed(stage, alpha.base_url or "", "tool")
    async with stage.thread(
        "alpha:gpt-5.5", name, tools=(forever, weigh), providers={"alpha": alpha}
    ) as thread:
        await stage.turn(thread, "Go on.")
        await stage.turn(thread, "And on.")


async def killed_in_an_answer(stage: Stage) -> None:
    """A process dies while the model speaks; the next one is told of the unanswered input."""
    alpha = await stage.provider(
        "alpha",
        "responses",
        says("one two three", stall=Break(events=3)),
        says("Going on."),
    )
    name = await killed(stage, alpha.base_url or "", "text")
    async with stage.thread(
        "alpha:gpt-5.5", name, tools=(forever, weigh), providers={"alpha": alpha}
    ) as thread:
        await stage.turn(thread, "Go on.")


async def goes_on_from(stage: Stage, kind: str) -> None:
    """Import a session and go on with each of its threads."""
    path = stage.place / f"{kind}.jsonl"
    shutil.copy(SAMPLES / path.name, path)
    for name in await imported(stage, path):
        model = stage.model(says("I read it."), says("And on."))
        async with stage.thread(model, name, tools=(weigh,)) as thread:
            await stage.turn(thread, "What was it about?")
            await stage.turn(thread, "Go on.")


async def imported_from_codex(stage: Stage) -> None:
    """A session of Codex goes on here."""
    await goes_on_from(stage, "codex")


async def imported_from_claude(stage: Stage) -> None:
    """A session of Claude Code goes on here."""
    await goes_on_from(stage, "claude")


async def imported_from_openclaw(stage: Stage) -> None:
    """A session of OpenClaw goes on here."""
    await goes_on_from(stage, "openclaw")


async def imported_from_plain_lines(stage: Stage) -> None:
    """Plain lines go on here."""
    await goes_on_from(stage, "plain")
