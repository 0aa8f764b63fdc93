"""A turn with a call of ours and one of Codex's, that a kill may meet anywhere.

    python -m tests.harness.codex.kill_scenes PLACE BASE_URL BINARY MOMENT

runs the turn in a process of its own, until that is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.engines.crash_child import DyingStore, Fate
from tests.engines.notebook import Notebook
from treadle import Thread
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.models.providers import ProviderConfig
from treadle.testing.script import Answer, Break, Call, Script
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool

from .scenes import codex
from .warm_home import warm_home

__all__ = ["OWN_MOMENTS", "harness_of", "looking", "open_thread", "script"]

OWN_MOMENTS = {"a result is staged": "after result", "the end is not written": "before end"}
"""Moments that only Treadle knows of, as points of its store."""


async def _nothing() -> None:
    """Go on."""


def script(command: str = "echo quack", *, stall: Break | None = None) -> Script:
    """Looks, runs a command, and answers, once with a `stall`; wherever it is taken up."""
    run = Call(name="exec_command", arguments={"cmd": command, "yield_time_ms": 10_000})
    return Script(
        answers=(
            Answer(when="elder", text="On elder.", times=0),
            Answer(when="damson", text="On damson.", times=0),
            Answer(when="quack", text="On cherry.", stall=stall),
            Answer(when="quack", text="On cherry.", times=0),
            Answer(when="a duck", calls=(run,), times=0),
            Answer(when="cherry", calls=(Call(name="look"),), times=0),
            Answer(when="apricot", text="On apricot.", times=0),
            # The outcome of a call is not known.
            Answer(text="On cherry, somehow.", times=0),
        )
    )


def looking(at: Callable[[], Awaitable[None]] = _nothing) -> Tool:
    """`look`; `at` is called while it runs."""

    @tool(parallel=True)
    async def look() -> str:
        """See what is there."""
        await at()
        return "a duck"

    return look


def providers(base_url: str) -> dict[str, ProviderConfig]:
    return {
        "openai": ProviderConfig(api="responses", base_url=base_url, key="sk-planted", retries=0)
    }


def harness_of(place: Path, base_url: str, binary: Path) -> CodexHarness:
    warm_home(place / "treadle", codex())
    environ = {"PATH": os.environ["PATH"], "HOME": str(place / "home")}
    return CodexHarness(
        CodexOptions(binary=binary),
        home=place / "treadle",
        environ=environ,
        providers=providers(base_url),
    )


@asynccontextmanager
async def open_thread(
    place: Path, base_url: str, thread: str | None = None, **options: Any
) -> AsyncIterator[tuple[Thread, Notebook]]:
    """A thread in `place` with an engine that commits turns."""
    engine = Notebook(place / "notebook.db")
    given: dict[str, Any] = {
        "model": "openai:gpt-5.5",
        "home": place / "treadle",
        "cwd": place / "project",
        "sandbox": "danger-full-access",
        "approval": "never",
        "tools": (looking(),),
        "environ": {"PATH": os.environ["PATH"], "HOME": str(place / "home")},
        "providers": providers(base_url),
        "engine": engine,
    }
    async with Thread.open(thread, **open_keywords(**(given | options))) as found:
        yield found, engine


async def main(place: Path, base_url: str, binary: Path, moment: str) -> None:
    """Run the turn."""
    store = await DyingStore.open(place / "treadle")
    assert isinstance(store, DyingStore)
    store.fate = Fate(OWN_MOMENTS.get(moment, ""))
    store.fate.armed = True
    (known,) = await store.threads()
    harness = harness_of(place, base_url, binary)
    look = looking(_die if moment == "our tool runs" else _nothing)
    async with open_thread(
        place, base_url, known.id, harness=harness, store=store, tools=(look,)
    ) as (
        thread,
        _,
    ):
        async for _event in thread.run("cherry", turn_id="cherry"):
            pass


async def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
