"""The state of engines: which there are, what each needs, and its problems.

Owns what `treadle engines` and `treadle doctor` tell. Invariant: engines are tried in a home
that is thrown away, so looking at one leaves nothing behind and disturbs no thread.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..config import Settings
from ..core.errors import EngineFailed
from ..engines.advance import topic_of
from ..engines.contract import (
    LOOP_CAPABILITIES,
    ContextEngine,
    Disposes,
    EngineInfo,
    unmet_requirement,
)
from ..engines.defects import delivery_promise, guarantee, optional_powers
from ..engines.guard import EngineGuard
from ..engines.loading import EngineContext, EngineRegistry, ProblemKind, Resolution, canonical_name
from ..engines.reports import EngineFailure, EngineHealth
from ..store.contract import OutboxRow, Store

__all__ = [
    "INSPECT_SECONDS",
    "EngineNeed",
    "EngineState",
    "WaitingTurn",
    "configured_engine",
    "engine_states",
    "inspect_engine",
    "inspect_factory",
]

State: TypeAlias = Literal["ok"] | ProblemKind

INSPECT_SECONDS = 10.0
"""Seconds that the inspection of an engine may take."""

_HOST = "treadle"


class EngineNeed(Struct, frozen=True, kw_only=True):
    """What an operation of an engine needs, and whether Treadle's loop has it."""

    operation: str
    capabilities: tuple[str, ...]
    unmet: str | None


class WaitingTurn(Struct, frozen=True, kw_only=True):
    """A turn that has not reached its engine yet."""

    thread: str
    key: str
    state: str
    attempts: int
    error: str | None


class EngineState(Struct, frozen=True, kw_only=True):
    """All facts about one engine; None where only a working engine could tell."""

    id: str
    owner: str
    selected: bool = False
    state: State = "ok"
    problem: str | None = None
    remedy: str | None = None
    defects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    name: str | None = None
    version: str | None = None
    powers: tuple[str, ...] = ()
    guarantee: str | None = None
    promise: str | None = None
    compaction: Literal["engine", "runtime"] | None = None
    maintenance: str | None = None
    needs: tuple[EngineNeed, ...] = ()
    last_failure: EngineFailure | None = None
    waiting: tuple[WaitingTurn, ...] = ()


async def engine_states(
    registry: EngineRegistry, settings: Settings, home: Path, cwd: Path, store: Store
) -> list[EngineState]:
    """Return every engine that is installed, selected, or has waiting turns."""
    plugins = await asyncio.to_thread(registry.engines)
    failures = await asyncio.to_thread(EngineHealth(home).read)
    rows = await store.outbox()
    selected = canonical_name(settings.engine)
    left = sorted(row.topic.removeprefix(topic_of("")) for row in rows if _is_ours(row))
    known = dict.fromkeys([*(canonical_name(plugin.name) for plugin in plugins), selected, *left])
    return [
        msgspec.structs.replace(
            await inspect_engine(registry, engine, settings.engines.get(engine, {}), cwd),
            selected=engine == selected,
            last_failure=failures.get(engine),
            waiting=_waiting(rows, engine),
        )
        for engine in known
    ]


async def configured_engine(settings: Settings, home: Path, cwd: Path) -> EngineState:
    """Return the configured engine, its last failure, and conflicts about ids."""
    engine = canonical_name(settings.engine)
    registry = EngineRegistry(timeout=INSPECT_SECONDS)
    state = await inspect_engine(registry, engine, settings.engines.get(engine, {}), cwd)
    failures = await asyncio.to_thread(EngineHealth(home).read)
    conflicts = await asyncio.to_thread(registry.conflicts)
    return msgspec.structs.replace(
        state,
        selected=True,
        last_failure=failures.get(engine),
        notes=tuple(map(str, conflicts)),
    )


async def inspect_engine(
    registry: EngineRegistry, engine: str, config: Mapping[str, Any], cwd: Path
) -> EngineState:
    """Create the engine with this id, return its state, and close it."""
    with tempfile.TemporaryDirectory(prefix="treadle-engines-") as scratch:
        context = EngineContext.of(engine, home=Path(scratch), config=dict(config), cwd=cwd)
        return await _describe(await registry.resolve(engine, context))


async def inspect_factory(registry: EngineRegistry, target: str, cwd: Path) -> EngineState:
    """Return the state of the engine of the factory ``module:name``."""
    with tempfile.TemporaryDirectory(prefix="treadle-engines-") as scratch:
        context = EngineContext.of("checked", home=Path(scratch), cwd=cwd)
        return await _describe(await registry.examine(target, context))


async def _describe(found: Resolution) -> EngineState:
    if found.engine is not None:
        try:
            return _describe_engine(found, found.engine)
        finally:
            await _dispose(found.engine)
    assert found.problem is not None
    return EngineState(
        id=found.id,
        owner=found.owner,
        state=found.problem.kind,
        problem=found.problem.cause,
        remedy=found.problem.remedy,
        defects=found.problem.defects,
    )


def _describe_engine(found: Resolution, engine: ContextEngine) -> EngineState:
    info, able = engine.info, optional_powers(engine)
    return EngineState(
        id=found.id,
        owner=found.owner,
        notes=found.notes,
        name=info.name,
        version=info.version,
        powers=able,
        guarantee=guarantee(engine),
        promise=delivery_promise(engine),
        compaction="engine" if info.owns_compaction else "runtime",
        maintenance=info.turn_maintenance_mode if "maintain" in able else None,
        needs=_needs(info),
    )


def _needs(info: EngineInfo) -> tuple[EngineNeed, ...]:
    return tuple(
        EngineNeed(
            operation=operation,
            capabilities=tuple(requirement.capabilities),
            unmet=unmet_requirement(info, operation, LOOP_CAPABILITIES, _HOST),
        )
        for operation, requirement in info.host_requirements.items()
    )


async def _dispose(engine: ContextEngine) -> None:
    if isinstance(engine, Disposes):
        with suppress(EngineFailed):
            await EngineGuard(engine.info).call(
                "dispose", engine.dispose, None, object, INSPECT_SECONDS
            )


def _is_ours(row: OutboxRow) -> bool:
    return row.topic.startswith(topic_of(""))


def _waiting(rows: Sequence[OutboxRow], engine: str) -> tuple[WaitingTurn, ...]:
    return tuple(
        WaitingTurn(
            thread=row.thread,
            key=row.key,
            state=row.state,
            attempts=row.attempts,
            error=row.error,
        )
        for row in rows
        if row.topic == topic_of(engine)
    )
