"""Deleting a thread for good.

Owns the order: whoever keeps something of the thread forgets it first, the log is deleted
last. Invariants: a thread that somebody writes is not touched; after a crash in between, the
thread is still there, and deleting it again completes the work.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..context.view import load_view
from ..core.errors import StoreError, TreadleError
from ..core.redact import describe_error, one_line
from ..engines.deletion import tell_engines_of_deletion
from ..engines.loading import EngineRegistry, engine_registry
from ..executors.choice import LOCAL, find_source
from ..harness.offers import HarnessOffer
from ..harness.registry import HarnessRegistry, harness_registry
from ..policy.auth.auth_state import AuthState
from ..prompt.registry import default_registry
from ..store.contract import Index, Store
from ..workspace.copy_retention import forget_thread
from .elsewhere import read_record

__all__ = ["delete_thread"]


async def delete_thread(
    thread: str,
    store: Store,
    index: Index,
    *,
    home: Path,
    configs: Mapping[str, dict[str, Any]] | None = None,
    engines: EngineRegistry | None = None,
    harnesses: HarnessRegistry | None = None,
) -> list[str]:
    """Delete a thread, and all that engines, harnesses and the index have of it.

    `configs` are the tables of the engines. Returns what is left elsewhere, one sentence each.
    Raises `NotFound`, `ThreadBusy`.
    """
    root = (await store.info(thread)).root
    lease = await store.acquire(thread)
    try:
        problems = await _delete_stored(thread, store, home, harnesses or harness_registry())
        problems += await _stop_executor(thread, store)
        problems += await tell_engines_of_deletion(
            thread,
            store,
            index,
            registry=engines or engine_registry(),
            home=home,
            configs=configs or {},
        )
    finally:
        await lease.release()
    await store.delete(thread)
    await index.forget(thread)
    await asyncio.to_thread(AuthState(home).unpin, thread)
    try:
        upto = await _shared_upto(thread, root, store)
        await asyncio.to_thread(forget_thread, home, thread, upto)
    except (OSError, StoreError) as error:
        problems.append(f"copies of files: {error}; `treadle gc` deletes them later")
    return problems


async def _stop_executor(thread: str, store: Store) -> list[str]:
    """Remove what the thread's commands ran in, if it was made for this thread."""
    try:
        record = read_record(await load_view(store, thread, default_registry()))
        if record is None or record.where == LOCAL or record.owner != thread:
            return []
        source = find_source(record.where, cwd=Path((await store.info(thread)).cwd))
        if source is not None:
            await source.stop(record)
    except (OSError, TreadleError) as error:
        return [f"what its commands ran in: {one_line(str(error))}"]
    return []


async def _shared_upto(thread: str, root: str, store: Store) -> int:
    """Return the last entry of a deleted thread that a fork still shares."""
    family = [info.id for info in await store.threads() if info.root == root]
    spans = [span for each in family for span in await store.lineage(each)]
    return max((span.last for span in spans if span.thread == thread), default=0)


async def _delete_stored(
    thread: str, store: Store, home: Path, registry: HarnessRegistry
) -> list[str]:
    await registry.load()
    rows = await store.outbox(thread=thread)
    offer = HarnessOffer(home=home, environ=os.environ)
    problems: list[str] = []
    for harness in registry.harnesses():
        if harness.delete_stored is not None:
            try:
                problems += await harness.delete_stored(offer, thread, rows)
            except Exception as error:  # noqa: BLE001 - a package's harness keeps no thread alive
                problems.append(f"harness {harness.id!r}: {describe_error(error)}")
    return problems
