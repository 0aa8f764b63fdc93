"""The runner: plays rows and compares what is seen with what was promised.

Owns the comparison. Invariant: a row passes only if every key it expects was seen with
exactly that value; a driver that raises fails the row, and the run goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .drivers import find_driver
from .row import Row
from .stage import Stage, codex_stage, weft_stage

__all__ = ["STAGES", "Result", "Stages", "play", "run"]

Status: TypeAlias = Literal["passed", "failed", "deferred"]
Observed: TypeAlias = Mapping[str, Any]

PATIENCE = 60.0
"""Seconds that a row may take."""


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a row fared on a harness."""

    id: str
    domain: str
    title: str
    harness: str
    status: Status
    reason: str = ""


Stages: TypeAlias = Mapping[str, Callable[[], Any]]
STAGES: Stages = {"weft": weft_stage, "codex": codex_stage}
"""What harness rows are played on."""


async def run(
    rows: Iterable[Row], *, harness: str | None = None, stages: Stages = STAGES
) -> AsyncIterator[Result]:
    """Play rows, the shared ones first, then by harness; a result for each."""
    chosen = list(rows)
    for row in chosen:
        if "shared" in row.harnesses and harness in (None, "shared"):
            yield await play(row, "shared", None)
    for name, opened in stages.items():
        wanted = [row for row in chosen if name in row.harnesses]
        if not wanted or harness not in (None, name):
            continue
        async with AsyncExitStack() as stack:
            stage = None
            for row in wanted:
                if stage is None and not row.deferred:
                    stage = await stack.enter_async_context(opened())
                yield await play(row, name, stage)


async def play(row: Row, harness: str, stage: Stage | None) -> Result:
    """Play one row."""
    told = {"id": row.id, "domain": row.domain, "title": row.title, "harness": harness}
    if row.deferred:
        return Result(**told, status="deferred", reason=row.deferred)
    driver = find_driver(row.driver)
    if driver is None:
        return Result(**told, status="failed", reason=f"there is no driver {row.driver!r}")
    try:
        async with asyncio.timeout(PATIENCE):
            seen = await driver(row.given, stage)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the row has failed
        return Result(**told, status="failed", reason=f"{type(error).__name__}: {error}")
    wrong = differences(row.expected, seen)
    return Result(**told, status="failed" if wrong else "passed", reason="; ".join(wrong))


def differences(expected: Mapping[str, Any], seen: Observed) -> list[str]:
    """What was not seen as it was promised."""
    return [
        f"{key}: expected {value!r}, saw {seen.get(key, 'nothing')!r}"
        for key, value in expected.items()
        if key not in seen or seen[key] != value
    ]
