"""The matrix under pytest: a plugin that runs every row as a test of its own.

Owns the fixture `treadle_row`, parametrised by row and harness, and the options that choose
them. Activate it with ``pytest_plugins = ["treadle.testing.matrix.plugin"]`` in a top
conftest, or with ``-p``. Invariant: rows share fixtures, which are closed when the session
ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .contract_rows import ContractRow, load_rows
from .runner import FixturePool, Result
from .tested_harnesses import HarnessUnderTest, harnesses_under_test, thread_defaults

__all__ = ["MatrixContract", "RowTest"]

_OPTIONS = {
    "harness": "run the rows on this harness only: shared, treadle, codex, an id, MODULE:NAME",
    "engine": "give threads this context engine where a row brings none: an id, or MODULE:NAME",
    "model": "ask this model where a row does not look at the format: a name, or MODULE:NAME",
    "domain": "run the rows of this domain only",
}


@dataclass(frozen=True, slots=True)
class RowTest:
    """A row and the harness to run it on."""

    row: ContractRow
    harness: HarnessUnderTest
    fixtures: FixturePool
    loop: asyncio.Runner

    def run(self) -> Result:
        """Run the row."""
        return self.loop.run(self.fixtures.run(self.row, self.harness))

    def check(self) -> None:
        """Run the row; fail the test if the row fails, skip it if the row is deferred."""
        result = self.run()
        if result.status == "deferred":
            pytest.skip(result.reason)
        if result.status == "failed":
            pytest.fail(f"{result.id} on {result.harness}: {result.reason}", pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line, and the same in the configuration file."""
    group = parser.getgroup("treadle", "the contract matrix")
    for name, text in _OPTIONS.items():
        group.addoption(f"--treadle-{name}", metavar="NAME", help=text)
        parser.addini(f"treadle_{name}", text, default=None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of every row and harness for a function that takes `treadle_row`."""
    if "treadle_row" not in metafunc.fixturenames:
        return
    chosen = {name: _option(metafunc.config, name) for name in _OPTIONS}
    harnesses = harnesses_under_test(
        chosen["harness"], thread_defaults(chosen["engine"], chosen["model"])
    )
    rows = [row for row in load_rows() if chosen["domain"] in (None, row.domain)]
    # By harness, so that one fixture is left before the next is opened.
    tests = [(row, harness) for harness in harnesses for row in rows if harness.can_run(row)]
    ids = [f"{row.id}-{harness.name}" for row, harness in tests]
    metafunc.parametrize("treadle_row", tests, ids=ids, indirect=True)


@pytest.fixture
def treadle_row(request: pytest.FixtureRequest, treadle_fixtures: _Session) -> RowTest:
    """Return a row of the contract matrix; `check` runs it."""
    row, harness = request.param
    return RowTest(row, harness, treadle_fixtures.fixtures, treadle_fixtures.loop)


@dataclass(frozen=True, slots=True)
class _Session:
    fixtures: FixturePool
    loop: asyncio.Runner


@pytest.fixture(scope="session")
def treadle_fixtures() -> Iterator[_Session]:
    """Yield the fixtures that all rows share, and their event loop."""
    with asyncio.Runner() as loop:
        fixtures = FixturePool()
        yield _Session(fixtures, loop)
        loop.run(fixtures.close())


def _option(config: pytest.Config, name: str) -> str | None:
    found: str | None = config.getoption(f"--treadle-{name}")
    return found or config.getini(f"treadle_{name}") or None


class MatrixContract:
    """What every harness, engine and model must do, row by row."""

    def test_a_promise_is_kept(self, treadle_row: RowTest) -> None:
        """Run the row and compare."""
        treadle_row.check()
