"""The matrix under pytest: a plugin that plays every row as a test of its own.

Owns the fixture `treadle_row`, parametrised by row and harness, and the options that choose
them. Activate it with ``pytest_plugins = ["treadle.testing.matrix.plugin"]`` in a top
conftest, or with ``-p``. Invariant: rows share stages, and what they started is gone when
the session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .cast import Player, cast, scenery
from .row import Row, load_rows
from .runner import Result, Theatre

__all__ = ["PlayedRow"]

_OPTIONS = {
    "harness": "play the rows on this harness only: shared, treadle, codex, an id, MODULE:NAME",
    "engine": "give threads this context engine where a row brings none: an id, or MODULE:NAME",
    "model": "ask this model where a row does not look at the format: a name, or MODULE:NAME",
    "domain": "play the rows of this domain only",
}


@dataclass(frozen=True, slots=True)
class PlayedRow:
    """A row, ready to be played."""

    row: Row
    player: Player
    theatre: Theatre
    loop: asyncio.Runner

    def play(self) -> Result:
        """Play it."""
        return self.loop.run(self.theatre.play(self.row, self.player))

    def check(self) -> None:
        """Play it; a row that is not kept fails the test, a deferred one is told as such."""
        result = self.play()
        if result.status == "deferred":
            pytest.skip(result.reason)
        if result.status == "failed":
            pytest.fail(f"{result.id} on {result.harness}: {result.reason}", pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options on the command line, and the same in the configuration file."""
    group = parser.getgroup("treadle", "the contract matrix")
    for name, text in _OPTIONS.items():
        group.addoption(f"--treadle-{name}", metavar="NAME", help=text)
        parser.addini(f"treadle_{name}", text, default=None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of every row and harness for a function that takes `treadle_row`."""
    if "treadle_row" not in metafunc.fixturenames:
        return
    chosen = {name: _option(metafunc.config, name) for name in _OPTIONS}
    players = cast(chosen["harness"], scenery(chosen["engine"], chosen["model"]))
    rows = [row for row in load_rows() if chosen["domain"] in (None, row.domain)]
    # By player, so that one stage is left before the next is opened.
    played = [(row, player) for player in players for row in rows if player.plays(row)]
    ids = [f"{row.id}-{player.name}" for row, player in played]
    metafunc.parametrize("treadle_row", played, ids=ids, indirect=True)


@pytest.fixture
def treadle_row(request: pytest.FixtureRequest, treadle_theatre: _Open) -> PlayedRow:
    """A row of the contract matrix; `check` plays it."""
    row, player = request.param
    return PlayedRow(row, player, treadle_theatre.theatre, treadle_theatre.loop)


@dataclass(frozen=True, slots=True)
class _Open:
    theatre: Theatre
    loop: asyncio.Runner


@pytest.fixture(scope="session")
def treadle_theatre() -> Iterator[_Open]:
    """The stages that all rows share, and the loop that they live in."""
    with asyncio.Runner() as loop:
        theatre = Theatre()
        yield _Open(theatre, loop)
        loop.run(theatre.close())


def _option(config: pytest.Config, name: str) -> str | None:
    found: str | None = config.getoption(f"--treadle-{name}")
    return found or config.getini(f"treadle_{name}") or None
