"""Deletion: every engine is told that a thread is being deleted.

Owns which engines are asked, and what they are told. Invariant: an engine that cannot be
made, or fails, keeps no thread alive; the caller gets one sentence for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, EngineFailed
from ..store.contract import Index, Store
from .contract import ContextEngine, Disposes, Resets
from .conversation import StoredLogReader
from .guard import EngineGuard, EngineTimeouts
from .loading import EngineContext, EngineRegistry, canonical_name
from .values import ResetParams, ThreadRef

__all__ = ["tell_engines_of_deletion"]


async def tell_engines_of_deletion(
    thread: str,
    store: Store,
    index: Index,
    *,
    registry: EngineRegistry,
    home: Path,
    configs: Mapping[str, dict[str, Any]],
) -> list[str]:
    """Tell every engine that there is; return the problems of those that could not be told."""
    given = await _deletion(thread, store, index)
    try:
        plugins = await asyncio.to_thread(registry.engines)
    except ConfigError as error:
        return [str(error)]
    problems: list[str] = []
    for name in dict.fromkeys(canonical_name(plugin.name) for plugin in plugins):
        context = EngineContext.of(
            name, home=home, config=configs.get(name), cwd=Path(given.thread.cwd)
        )
        found = await registry.resolve(name, context)
        if found.engine is None:
            problems.append(str(found.problem))
            continue
        try:
            await _tell(found.engine, given)
        except EngineFailed as error:
            problems.append(str(error))
    return problems


async def _deletion(thread: str, store: Store, index: Index) -> ResetParams:
    """Return what the engines are told: the entries that no other thread has."""
    info = await store.info(thread)
    shared = [info.cut]
    for other in await store.threads():
        if other.root == info.root and other.id != thread:
            spans = await store.lineage(other.id)
            shared += [span.last for span in spans if span.thread == thread]
    return ResetParams(
        thread=ThreadRef(
            id=info.id, root=info.root, parent=info.parent, cut=info.cut, cwd=info.cwd
        ),
        log=StoredLogReader(thread, store, index),
        reason="delete",
        first=max(shared) + 1,
        last=info.last,
    )


async def _tell(engine: ContextEngine, given: ResetParams) -> None:
    seconds = EngineTimeouts()
    guard = EngineGuard(engine.info)
    try:
        if isinstance(engine, Resets):
            await guard.call("thread_reset", engine.thread_reset, given, type(None), seconds.commit)
    finally:
        if isinstance(engine, Disposes):
            await guard.call("dispose", engine.dispose, None, type(None), seconds.dispose)
        await guard.close()
