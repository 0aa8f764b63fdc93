"""The runner: runs rows and compares the observed values with the expected ones.

Owns the comparison. Invariants: a row passes only if every key it expects was observed
with exactly that value; a driver that raises fails its row, a fixture that cannot be opened
fails its rows, and the run continues.
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
from .contract_rows import ContractRow
from .drivers import find_driver
from .fixture import MatrixFixture
from .tested_harnesses import HarnessUnderTest, harnesses_under_test

__all__ = ["FixturePool", "Result", "Status", "differences", "run_row", "run_rows"]

Status: TypeAlias = Literal["passed", "failed", "deferred"]
Observed: TypeAlias = Mapping[str, Any]

ROW_TIMEOUT = 60.0
"""Seconds that a row may take."""


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one row on one harness."""

    id: str
    domain: str
    title: str
    harness: str
    status: Status
    reason: str = ""


@dataclass(slots=True)
class FixturePool:
    """Fixtures that are opened when a row needs them, and closed together."""

    _open: dict[str, MatrixFixture | str] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def run(self, row: ContractRow, harness: HarnessUnderTest) -> Result:
        """Run one row on one harness."""
        if row.deferred or harness.open_fixture is None:
            return await run_row(row, harness.name, None)
        fixture = await self._fixture(harness)
        if isinstance(fixture, str):
            return _result(row, harness.name, "failed", fixture)
        return await run_row(row, harness.name, fixture)

    async def close(self) -> None:
        """Close the fixtures."""
        self._open.clear()
        await self._stack.aclose()

    async def _fixture(self, harness: HarnessUnderTest) -> MatrixFixture | str:
        """Return the fixture of a harness, or why it cannot be opened."""
        assert harness.open_fixture is not None
        if harness.name not in self._open:
            try:
                opened = await self._stack.enter_async_context(harness.open_fixture())
            except Exception as error:  # noqa: BLE001 - a third party's factory may raise anything
                self._open[harness.name] = f"its fixture cannot be opened: {_describe_error(error)}"
            else:
                self._open[harness.name] = opened
        return self._open[harness.name]


async def run_rows(
    rows: Iterable[ContractRow], harnesses: Sequence[HarnessUnderTest] | None = None
) -> AsyncGenerator[Result, None]:
    """Run rows on one harness after the other; yield a result for each row and harness."""
    chosen = list(rows)
    fixtures = FixturePool()
    try:
        for harness in harnesses if harnesses is not None else harnesses_under_test():
            for row in filter(harness.can_run, chosen):
                yield await fixtures.run(row, harness)
    finally:
        await fixtures.close()


async def run_row(row: ContractRow, harness: str, fixture: MatrixFixture | None) -> Result:
    """Run one row on a fixture, or without one."""
    if row.deferred:
        return _result(row, harness, "deferred", row.deferred)
    driver = find_driver(row.driver)
    if driver is None:
        return _result(row, harness, "failed", f"there is no driver {row.driver!r}")
    if fixture is not None:
        fixture.play()
    try:
        async with asyncio.timeout(ROW_TIMEOUT):
            seen = await driver(row.given, fixture)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the row has failed
        return _result(row, harness, "failed", _describe_error(error))
    wrong = differences(row.expected, seen)
    return _result(row, harness, "failed" if wrong else "passed", "; ".join(wrong))


def differences(expected: Mapping[str, Any], seen: Observed) -> list[str]:
    """Return a line for each expected value that was not observed."""
    return [
        f"{key}: expected {value!r}, saw {seen.get(key, 'nothing')!r}"
        for key, value in expected.items()
        if key not in seen or not _same(seen[key], value)
    ]


def _same(seen: Any, expected: Any) -> bool:
    """Compare as JSON: values of Python types equal what they are encoded as."""
    return _encode(seen) == _encode(expected)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _result(row: ContractRow, harness: str, status: Status, reason: str = "") -> Result:
    return Result(
        id=row.id,
        domain=row.domain,
        title=row.title,
        harness=harness,
        status=status,
        reason=redact(reason),
    )


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
