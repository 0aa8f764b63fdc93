"""The picker: a list of threads to continue one of.

Invariant: threads of the directory come first, then the others, each newest first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...store.contract import Store, ThreadInfo
from ...store.thread_names import thread_name
from .choose import Choice, choose

__all__ = ["Chooser", "age", "choose_thread", "pick_thread", "shown_directory", "where_and_when"]

_MOST = 200
"""Threads that are listed; older ones are continued by their id."""
_UNITS = ((7 * 86_400, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))


class Chooser(Protocol):
    """Lets the user choose a row."""

    async def __call__(self, title: str, choices: Sequence[Choice], start: int = 0) -> int | None:
        """Return the position of the row, or None."""
        ...


async def pick_thread(store: Store, cwd: Path, *, plain: bool = False) -> str | None:
    """Let the user at the terminal choose a thread of `store`; return its id, or None.

    None also where there is none to choose.
    """

    async def ask(title: str, choices: Sequence[Choice], start: int = 0) -> int | None:
        return await choose(title, choices, start=start, plain=plain)

    return await choose_thread(store, cwd, ask)


async def choose_thread(store: Store, cwd: Path, ask: Chooser, *, current: str = "") -> str | None:
    """Let the user choose a thread other than the `current` one; return its id, or None."""
    here = str(cwd)
    listed = sorted(await store.threads(limit=_MOST), key=lambda info: info.cwd != here)
    threads = [info for info in listed if info.turns and info.id != current]
    if not threads:
        return None
    chosen = await ask("Continue which thread?", await _rows(store, threads))
    return None if chosen is None else threads[chosen].id


async def _rows(store: Store, threads: Sequence[ThreadInfo]) -> list[Choice]:
    now = time.time()
    return [
        Choice(
            await thread_name(store, info) or info.id,
            where_and_when(info, now),
        )
        for info in threads
    ]


def where_and_when(info: ThreadInfo, now: float) -> str:
    """Return the directory of a thread, if it has one, and how long ago it was written."""
    when = age(now - info.updated / 1000)
    return f"{shown_directory(info.cwd)} · {when}" if info.cwd else when


def age(seconds: float) -> str:
    """Return how long ago something was, roughly."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def shown_directory(path: str) -> str:
    """Return a directory with the user's home as ``~``."""
    home = str(Path.home())
    if path == home:
        return "~"
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path
