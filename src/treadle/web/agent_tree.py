"""Agents as a tree, each with what it cost.

Owns how far the tree goes. Invariant: who started whom is read from the logs alone, and a tree
never has more threads than can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..core.entries import SettingsChange
from ..core.errors import NotFound, StoreError, TreadleError
from ..core.wire import Json
from ..store.contract import ThreadInfo
from ..subagents.access import find_lineage
from ..subagents.records import AgentRecord, Lineage, agent_records
from .inspected_home import ShownHome
from .thread_list import ShownThreads

__all__ = ["ShownAgents"]

_MOST = 100
"""Threads in a tree."""
_DEEPEST = 8
_MOST_SETTINGS = 2_000
"""Settings entries among which the agents of a thread are looked for, the newest."""


class ShownAgents:
    """Tells which agents threads started."""

    def __init__(self, home: ShownHome, threads: ShownThreads) -> None:
        self._home, self._threads = home, threads

    async def tree(self, thread: str) -> dict[str, Any]:
        """Return the tree in which a thread stands."""
        info = await self._home.thread(thread)
        top = await self._top(info)
        grown = _Tree(self._home, self._threads)
        return {"tree": await grown.node(top, None, 0), "cut": grown.cut}

    async def _top(self, info: ThreadInfo) -> ThreadInfo:
        """Return the thread that nobody started and that all others here come from."""
        for _ in range(_DEEPEST):
            lineage = await self._lineage(info)
            if lineage is None:
                break
            try:
                info = await self._home.thread(lineage.parent)
            except NotFound:
                break  # it was deleted; its agents stay
        return info

    async def _lineage(self, info: ThreadInfo) -> Lineage | None:
        try:
            return await find_lineage(self._home.store, info)
        except (NotFound, StoreError):
            return None


class _Tree:
    """A tree that grows until it has as many threads as can be shown."""

    def __init__(self, home: ShownHome, threads: ShownThreads) -> None:
        self._home, self._threads = home, threads
        self._seen: set[str] = set()
        self.cut = False

    async def node(
        self, info: ThreadInfo, record: AgentRecord | None, depth: int
    ) -> dict[str, Any]:
        """Return a thread with the agents below it."""
        self._seen.add(info.id)
        told = await self._threads.thread(info)
        children = []
        for child, each in (await self._agents(info)).items():
            if len(self._seen) >= _MOST or depth >= _DEEPEST:
                self.cut = True
                break
            if child not in self._seen:
                children.append(await self._child(child, each, depth + 1))
        turns = await self._home.store.turn_page(info.id, limit=1)
        names = ("turns", "cost", "requests", "input_tokens", "cached_tokens", "model", "running")
        return {
            "thread": info.id,
            "name": record.nickname if record else told["name"],
            "role": record.agent_type if record else None,
            "forked": record.forked if record else False,
            "state": "running" if told["running"] else turns[0].state if turns else "new",
            **{name: told[name] for name in names},
            "children": children,
        }

    async def _child(self, child: str, record: AgentRecord, depth: int) -> dict[str, Any]:
        try:
            return await self.node(await self._home.thread(child), record, depth)
        except NotFound:
            self._seen.add(child)
            return {
                "thread": child,
                "name": record.nickname,
                "role": record.agent_type,
                "state": "deleted",
                "turns": None,
                "cost": None,
                "children": [],
            }

    async def _agents(self, info: ThreadInfo) -> Mapping[str, AgentRecord]:
        entries = await self._home.store.read_kinds_back(
            info.id, {"settings"}, info.last, limit=_MOST_SETTINGS
        )
        settings: dict[str, Json] = {}
        for entry in reversed(entries):
            try:
                control = entry.control
            except StoreError:
                continue
            if isinstance(control, SettingsChange):
                settings.update(control.changes)
        try:
            return agent_records(settings, info.id)
        except (TreadleError, msgspec.MsgspecError):
            return {}
