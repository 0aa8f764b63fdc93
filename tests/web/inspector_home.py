"""A home to look at with the inspector: threads of every sort, by scripted models.

    python -m tests.web.inspector_home DIRECTORY [--entries 10000] [--only NAME …] [--list]

Everything is real but the models: the threads were run, their requests went over HTTP. The
directory gets `home/`, for ``treadle --home DIRECTORY/home web``, and `project/`.
"""

# ruff: noqa: T201 - it is a script, too

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.golden.conversations import CONVERSATIONS
from tests.golden.drive import (
    AgentLimits,
    Stage,
    call,
    says,
    surroundings,
    tool,
)
from treadle.store.index import SqliteIndex
from treadle.store.sqlite import SqliteStore

from .long_thread import write_long_thread
from .mending import mending

__all__ = ["SCENES", "make_home", "make_long_thread"]

PRICES = """
[prices."scripted:sonata"]
input = 3.0
cached_input = 0.3
output = 15.0

[prices."scripted:sonata-mini"]
input = 0.25
cached_input = 0.025
output = 2.0
"""


HOSTILE = (
    "<script>window.pwned = 1</script></script><img src=x onerror=window.pwned=1>\n"
    "\u202egnp.exe\u202c  \x1b[31mred\x1b[0m  [click](javascript:window.pwned=1)\n"
    "<!-- --> ]]> {{constructor}} ${7*7} &lt;b&gt;\u2028\u2029"
)
Scene = Callable[[Stage], Awaitable[None]]


async def delegating(stage: Stage) -> None:
    """Two agents, one of which asks a smaller model; both cost something."""
    model = stage.model(
        says("Three files name it: `a.py`, `b.py`, `c.py`.", when="list the callers"),
        says("The changelog has no line about it.", when="read the changelog"),
        says(
            "",
            call("spawn_agent", message="list the callers of `key`", task_name="callers"),
            call("spawn_agent", message="read the changelog", task_name="changelog"),
            when="release",
        ),
        says("", call("wait_agent"), when="agent_id"),
        says("", call("wait_agent"), when="task_completion"),
        says("Three callers, and the changelog lacks a line.", times=0),
        name="sonata",
    )
    async with stage.thread(model, agents=AgentLimits(), title="Prepare the release") as thread:
        await stage.turn(thread, "Prepare the release: who calls `key`, is it in the changelog?")
        await stage.turn(thread, "Thanks.")


async def branching(stage: Stage) -> None:
    """A thread with a rollback, a fork of it, and a fork of the fork."""
    model = stage.model(says("A list."), says("A tree."), says("A graph."), name="sonata-mini")
    async with stage.thread(model, title="Which structure?") as thread:
        await stage.turn(thread, "Which structure holds the summaries?")
        await stage.turn(thread, "And their order?")
        await thread.rollback(1)
        await stage.turn(thread, "Think again: what about shared parts?")
        fork = await thread.fork(title="Which structure, with forks?")
    for answer in ("A graph, and forks share it.", "Then by digest."):
        again = stage.model(says(answer), name="sonata-mini")
        async with stage.thread(again, fork) as thread:
            await stage.turn(thread, "And with forks?")
            fork = await thread.fork()


async def hostile(stage: Stage) -> None:
    """Text of strangers everywhere: inputs, answers, names of tools, outputs, titles."""

    @tool
    async def fetch(address: str) -> str:
        "Returns what a stranger wrote."
        return f"{address}\n{HOSTILE}\n{'A' * 1_200_000}"

    model = stage.model(
        says(HOSTILE, call("fetch", address=HOSTILE), reasoning=HOSTILE),
        says(f"{HOSTILE} Authorization: Bearer abcdefghijklmnop sk-live-abcdefghijklmnop"),
        name="sonata-mini",
    )
    async with stage.thread(
        model, tools=(fetch,), title=HOSTILE.split("\n", maxsplit=1)[0]
    ) as thread:
        await stage.turn(thread, HOSTILE)


async def lossless(stage: Stage) -> None:
    """Summaries two levels deep, and a question that recalls."""
    await CONVERSATIONS["lossless-folds"](stage)


def _played(name: str) -> Scene:
    async def play(stage: Stage) -> None:
        await CONVERSATIONS[name](stage)

    play.__doc__ = CONVERSATIONS[name].__doc__
    return play


PLAYED = (
    "approvals",
    "patches",
    "plans-and-questions",
    "compaction-by-hand",
    "an-engine-that-folds",
    "switched-between-wire-formats",
    "rolled-back-behind-a-fold",
    "reset",
    "settings-changed",
    "imported-from-codex",
    "imported-from-claude",
    "failing-calls",
    "codex-tools",
)
SCENES: dict[str, Scene] = {
    "mending": mending,
    "delegating": delegating,
    "branching": branching,
    "hostile": hostile,
    "lossless": lossless,
    **{name: _played(name) for name in PLAYED},
}
"""All scenes by their names."""


async def make_home(place: Path, *names: str) -> Path:
    """Play scenes, all where none is named, in one home; return its directory."""
    with surroundings():
        for name in names or SCENES:
            # Facts about models hold for one scene.
            stage = Stage(place)
            async with stage.stack:
                await SCENES[name](stage)
            (stage.home / "models.toml").unlink(missing_ok=True)
    (place / "home" / "config.toml").write_text(PRICES)
    return place / "home"


async def make_long_thread(home: Path, entries: int, title: str = "A long thread") -> str:
    """Add a thread of about so many entries to a home; return its id."""
    home.mkdir(parents=True, exist_ok=True)
    async with await SqliteStore.open(home) as store:
        index = SqliteIndex(store, home)
        try:
            return await write_long_thread(store, index, entries, title=title)
        finally:
            await index.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a home to look at.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--entries", type=int, default=0, help="also a thread of so many entries")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="only these scenes")
    parser.add_argument("--list", action="store_true", help="print the names of the scenes")
    given = parser.parse_args()
    if given.list:
        print(*SCENES, sep="\n")
        return
    given.directory.mkdir(parents=True, exist_ok=True)
    if given.only != ["none"]:
        asyncio.run(make_home(given.directory, *given.only))
    if given.entries:
        print(asyncio.run(make_long_thread(given.directory / "home", given.entries)))
    print(f"treadle --home {given.directory / 'home'} web")


if __name__ == "__main__":
    main()
