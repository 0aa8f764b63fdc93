"""Deleting Codex's own copies of conversations.

Owns which Codex threads belong to a thread, and which to none. Invariants: only the private
home is written to, and of a copy in the user's own home the user is told; a clean-up deletes
nothing that a binding names, that a process uses, or that is younger than a day.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from ...store.contract import OutboxRow, Store
from ...store.sqlite import SqliteStore
from .binding import TOPIC, read_binding
from .codex_home import CodexHome
from .rollout_reader import locate_rollout, rollout_size
from .stored_threads import delete_stored_threads, is_written_to, old_threads, with_agents

__all__ = ["delete_copies", "delete_stale_copies"]

_log = logging.getLogger(__name__)

_MOST_STALE = 20
"""How many threads one clean-up deletes."""


async def delete_copies(
    home: Path, thread: str, rows: Sequence[OutboxRow], *, erase: bool = False
) -> list[str]:
    """Delete the Codex threads that the bindings among `rows` name; return what is left.

    With `erase`, no trace of them is left in Codex's databases.
    """
    found = [read_binding(row) for row in rows if row.topic == TOPIC]
    # The copy of a thread brings along the binding of the original.
    bindings = [each for each in found if each is not None and each.thread == thread]
    private = CodexHome.below(home)
    problems: list[str] = []
    for binding in bindings:
        path = await asyncio.to_thread(locate_rollout, binding.path, home)
        if await asyncio.to_thread(_lies_elsewhere, private, path):
            problems.append(
                f"Codex has a copy of the conversation in {path!r}; "
                f"`codex delete {binding.codex}` deletes it"
            )
        names = (binding.codex, *binding.former)
        problems += await asyncio.to_thread(
            delete_stored_threads, private.directory, names, erase=erase
        )
    return problems


def _lies_elsewhere(home: CodexHome, path: str | None) -> bool:
    return rollout_size(path) > 0 and not home.holds(path)


async def delete_stale_copies(home: Path, store: Store) -> None:
    """Delete old threads in the private home that no binding in `store` names, a few at a time.

    They are what earlier versions and processes that were killed have left.
    """
    if not isinstance(store, SqliteStore) or store.directory != home:
        return  # another store may have the bindings
    private = CodexHome.below(home).directory
    old = await asyncio.to_thread(old_threads, private)
    if not old:
        return
    bindings = map(read_binding, await store.outbox(topic=TOPIC))
    bound = {name for each in bindings if each is not None for name in (each.codex, *each.former)}
    await asyncio.to_thread(_delete_unbound, private, old, bound)


def _delete_unbound(private: Path, old: Sequence[str], bound: set[str]) -> None:
    kept = with_agents(private, bound)
    unused = [name for name in old if name not in kept and not is_written_to(private, name)]
    for problem in delete_stored_threads(private, unused[:_MOST_STALE]):
        _log.debug("clean-up: %s", problem)
