"""Weft with everything on: a log in a real file, the ledger, fragments, hooks, lossless."""

from __future__ import annotations

from typing import Any

from common import MODEL, QUESTION, Job, drive

from weft import Hooks, Thread, tool
from weft.hooks.payloads import AfterToolCall, BeforePromptBuild, BeforeToolCall, TurnEnded
from weft.models.connect import ProviderConfig


@tool
async def tick(number: int) -> int:
    """Counts."""
    return number + 1


async def watch(_: object) -> None:
    """A hook that has nothing to say."""


def hooks() -> Hooks:
    """A hook of each kind that turns and calls meet."""
    watched = Hooks()
    for event in (BeforePromptBuild, BeforeToolCall, AfterToolCall, TurnEnded):
        watched.on(event, watch)
    return watched


def opened(job: Job, script: str, thread: str | None = None, **options: Any) -> Any:
    """A thread as a host opens it."""
    provider = ProviderConfig(api="responses", base_url=job.base(script), key="none")
    project = job.scratch / "project"
    project.mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "model": f"openai:{MODEL}",
        "engine": "lossless",
        "hooks": hooks(),
        "cwd": project,
        "home": job.scratch / "home",
        "providers": {"openai": provider},
        "approval": "never",
        **options,
    }
    return Thread.open(thread, **settings)


async def turns(job: Job, script: str, count: int, **options: Any) -> None:
    """A thread of some turns."""
    async with opened(job, script, **options) as thread:
        for number in range(count):
            await turn(thread, number)


async def turn(thread: Thread, number: int) -> None:
    """One turn, heard to its end."""
    async for _ in thread.run(f"{QUESTION} ({number})."):
        pass


async def cold_start(job: Job) -> None:
    await turns(job, "text", 1)


async def tool_loop(job: Job) -> None:
    await turns(job, f"tick-{job.sizes['rounds']}", 1, tools=(tick,))


async def command_loop(job: Job) -> None:
    await turns(job, f"exec_command-{job.sizes['rounds']}", 1)


async def deltas(job: Job) -> None:
    await turns(job, "deltas", 2 * job.sizes["answers"] + 1)


async def long_thread(job: Job) -> None:
    await turns(job, "text", job.sizes["turns"])


if __name__ == "__main__":
    drive(
        "weft",
        {
            "cold_start": cold_start,
            "tool_loop": tool_loop,
            "command_loop": command_loop,
            "deltas": deltas,
            "turns": long_thread,
        },
    )
