"""The runner: plays rows and compares what is seen with what was promised.

Owns the comparison. Invariants: a row passes only if every key it expects was seen with
exactly that value; a driver that raises fails the row, a stage that cannot be opened
fails its rows, and the run goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ...core.redact import redact
from .cast import Player, cast
from .drivers import find_driver
from .row import Row
from .stage import Stage

__all__ = ["Result", "Status", "Theatre", "differences", "play", "run"]

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


@dataclass(slots=True)
class Theatre:
    """Stages that are opened when somebody plays, and closed together."""

    _open: dict[str, Stage | str] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def play(self, row: Row, player: Player) -> Result:
        """Play one row."""
        if row.deferred or player.opened is None:
            return await play(row, player.name, None)
        stage = await self._stage(player)
        if isinstance(stage, str):
            return _result(row, player.name, "failed", stage)
        return await play(row, player.name, stage)

    async def close(self) -> None:
        """Close the stages."""
        self._open.clear()
        await self._stack.aclose()

    async def _stage(self, player: Player) -> Stage | str:
        """The player's stage, or why there is none."""
        assert player.opened is not None
        if player.name not in self._open:
            try:
                opened = await self._stack.enter_async_context(player.opened())
            except Exception as error:  # noqa: BLE001 - a guest's factory may raise anything
                self._open[player.name] = f"there is no stage for it: {_told(error)}"
            else:
                self._open[player.name] = opened
        return self._open[player.name]


async def run(
    rows: Iterable[Row], players: Sequence[Player] | None = None
) -> AsyncGenerator[Result, None]:
    """Play rows, one player after the other; a result for each row and player."""
    chosen = list(rows)
    theatre = Theatre()
    try:
        for player in players if players is not None else cast():
            for row in filter(player.plays, chosen):
                yield await theatre.play(row, player)
    finally:
        await theatre.close()


async def play(row: Row, harness: str, stage: Stage | None) -> Result:
    """Play one row on a stage, or on none."""
    if row.deferred:
        return _result(row, harness, "deferred", row.deferred)
    driver = find_driver(row.driver)
    if driver is None:
        return _result(row, harness, "failed", f"there is no driver {row.driver!r}")
    if stage is not None:
        stage.script()
    try:
        async with asyncio.timeout(PATIENCE):
            seen = await driver(row.given, stage)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the row has failed
        return _result(row, harness, "failed", _told(error))
    wrong = differences(row.expected, seen)
    return _result(row, harness, "failed" if wrong else "passed", "; ".join(wrong))


def differences(expected: Mapping[str, Any], seen: Observed) -> list[str]:
    """What was not seen as it was promised."""
    return [
        f"{key}: expected {value!r}, saw {seen.get(key, 'nothing')!r}"
        for key, value in expected.items()
        if key not in seen or not _same(seen[key], value)
    ]


def _same(seen: Any, expected: Any) -> bool:
    """Equality as JSON has it: values of Python's own kinds are what they are written as."""
    return _written(seen) == _written(expected)


def _written(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _result(row: Row, harness: str, status: Status, reason: str = "") -> Result:
    return Result(
        id=row.id,
        domain=row.domain,
        title=row.title,
        harness=harness,
        status=status,
        reason=redact(reason),
    )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
