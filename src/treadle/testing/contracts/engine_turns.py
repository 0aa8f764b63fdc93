"""The contract of an engine: real threads, and failures at every call."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import pytest
from msgspec import Struct, defstruct

from ...context.ledger import watch
from ...core.errors import CannotCompact, TreadleError
from ...engines.contract import ContextEngine
from ...engines.guard import EngineTimeouts
from ...store.contract import LedgerRow
from ..engine_fixture import (
    EngineFixture,
    dispose_engine,
    pass_through,
    recall_from,
    run_turn,
    unpaired_calls,
)
from ..wrapping import CallWrapper, RecordedCalls, Work
from .engine_powers import needs

__all__ = ["TurnsContract", "reached_calls"]

How: TypeAlias = Literal["before", "after", "hangs"]

_ADVANCING = ("commit_turn", "after_turn", "ingest_batch", "ingest")
_PLANNING = ("assemble", "compact", "maintain")
"""If one of these fails, what an engine plans may differ; what it knows may not."""
_PATIENCE = dict.fromkeys((*_ADVANCING, "thread_reset"), "commit")


def reached_calls(powers: Sequence[str]) -> tuple[str, ...]:
    """Return the calls that turns, a compaction, a rollback and a close reach."""
    advancing = next(name for name in _ADVANCING if name in (*powers, "ingest"))
    besides = ("bootstrap", "maintain", "thread_reset", "dispose")
    return ("assemble", "compact", advancing, *(name for name in besides if name in powers))


@dataclass(slots=True)
class Fault:
    """Makes one call of an engine fail, once."""

    call: str
    how: How
    fired: bool = False

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        """Fail before or after the engine did its work, or never return."""
        if self.fired or call != self.call:
            return await work(given)
        self.fired = True
        if self.how == "hangs":
            await asyncio.Event().wait()
        if self.how == "after":
            await work(given)
        raise RuntimeError(f"{call} was made to fail")

    @property
    def timeouts(self) -> EngineTimeouts:
        """Return a short timeout for a call that hangs, and the default for all others."""
        kind = _PATIENCE.get(self.call, self.call)
        return EngineTimeouts(**{kind: 0.2}) if self.how == "hangs" else EngineTimeouts()


@dataclass(slots=True)
class Nested:
    """Two wrappers, one inside the other."""

    outer: CallWrapper
    inner: CallWrapper

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        """Call the outer wrapper with the inner one as its work."""
        return await self.outer(call, given, lambda passed: self.inner(call, passed, work))


@dataclass(slots=True)
class NewerParams:
    """Calls an engine with parameters that have a new field; records which calls failed."""

    failed: list[str] = field(default_factory=list)

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        """Call the engine with a field that it does not know."""
        try:
            return await work(None if given is None else _with_new_field(given))
        except Exception:
            self.failed.append(call)
            raise


def _with_new_field(given: Struct) -> Struct:
    kind = defstruct(
        f"Newer{type(given).__name__}",
        [("weather", str, "fair")],
        bases=(type(given),),
        frozen=True,
        kw_only=True,
    )
    return kind(**{name: getattr(given, name) for name in given.__struct_fields__})


class TurnsContract(ABC):
    """What every engine must do in a thread, also when calls fail."""

    reached: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    async def make_engine(cls, home: Path) -> ContextEngine:
        """Make the engine, with `home` for its files."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Fail every call that the engine has, in every way."""
        if "call" in metafunc.fixturenames:
            metafunc.parametrize("call", self.reached)

    @pytest.fixture
    def fixture(self, tmp_path: Path) -> EngineFixture:
        """Return the fixture of a test."""
        return EngineFixture(tmp_path, self.make_engine)

    @pytest.fixture
    def reference(self, tmp_path_factory: pytest.TempPathFactory) -> EngineFixture:
        """Return a fixture in which nothing fails, to compare with."""
        return EngineFixture(tmp_path_factory.mktemp("calm"), self.make_engine)

    @needs("passive")
    async def test_a_passive_engine_is_asked_nothing(self, fixture: EngineFixture) -> None:
        calls = RecordedCalls()
        with no_unexplained_break():
            thread = await _run_life(fixture, calls)
            async with fixture.open_thread(thread) as opened:
                await run_turn(opened)
                assert await opened.store.outbox(thread=thread) == []
        assert [call for call, _ in calls if call != "dispose"] == []

    @needs("turns")
    async def test_every_turn_reaches_it_in_order(self, fixture: EngineFixture) -> None:
        calls = RecordedCalls()
        with no_unexplained_break():
            async with fixture.open_thread(around=calls) as thread:
                await run_turn(thread)
                await run_turn(thread)
                with suppress(CannotCompact):
                    await thread.compact()
            async with fixture.open_thread(thread.id, around=calls) as thread:
                await run_turn(thread)
                assert await unpaired_calls(thread) == []
        assert turn_numbers(calls) == [1, 2, 3]
        assert len(calls.given_to("assemble")) >= 3

    async def test_what_it_knows_of_a_thread_outlives_it(self, fixture: EngineFixture) -> None:
        async with fixture.open_thread() as thread:
            await run_turn(thread)
            await run_turn(thread)
            alive = await recall_from(fixture.engines[-1], thread)
        assert await fixture.recall(thread.id) == alive

    async def test_fields_from_the_future_are_no_trouble(
        self, fixture: EngineFixture, reference: EngineFixture
    ) -> None:
        future = NewerParams()
        thread = await _run_life(fixture, future)
        assert future.failed == []
        assert await fixture.recall(thread) == await reference.recall(await _run_life(reference))

    async def test_threads_run_side_by_side(
        self, fixture: EngineFixture, reference: EngineFixture
    ) -> None:
        threads = await asyncio.gather(*(_run_life(fixture) for _ in range(3)))
        expected = await reference.recall(await _run_life(reference))
        assert [await fixture.recall(thread) for thread in threads] == [expected] * 3

    @needs("turns")
    @pytest.mark.parametrize("how", ["before", "after", "hangs"])
    async def test_a_turn_outlives_every_failure(
        self, fixture: EngineFixture, reference: EngineFixture, call: str, how: How
    ) -> None:
        fault, calls = Fault(call, how), RecordedCalls()
        with no_unexplained_break():
            thread = await _run_life(fixture, Nested(fault, calls), fault.timeouts)
            if call == "dispose" and how != "after":
                # Nobody else will: its files would stay open.
                await dispose_engine(fixture.engines[-1])
            async with fixture.open_thread(thread, around=calls) as opened:
                calls.clear()
                await run_turn(opened)
                assert calls.given_to("assemble"), "the engine was not asked again"
                assert await unpaired_calls(opened) == []
                await opened.log.done.settle()
                waiting = await opened.store.outbox(thread=thread)
        assert fault.fired
        assert waiting == []
        if call not in _PLANNING:
            other = await _run_life(reference)
            async with reference.open_thread(other) as opened:
                await run_turn(opened)
            assert await fixture.recall(thread) == await reference.recall(other)


async def _run_life(
    fixture: EngineFixture,
    around: CallWrapper = pass_through,
    timeouts: EngineTimeouts | None = None,
) -> str:
    """Run a thread that reaches every call of an engine; return its id.

    `around` wraps the engine when the thread is opened for the second time.
    """
    async with fixture.open_thread() as thread:
        await run_turn(thread)
        await run_turn(thread)
    async with fixture.open_thread(thread.id, around=around, timeouts=timeouts) as thread:
        await run_turn(thread)
        with suppress(TreadleError):
            await thread.compact()
        await thread.rollback()
        await run_turn(thread)
    return thread.id


def turn_numbers(calls: RecordedCalls) -> list[int]:
    """Return the numbers of the turns that the engine was given, in order."""
    numbers = [given.number for given in calls.given_to("commit_turn")]
    numbers += [given.items[-1].turn for given in calls.given_to("after_turn", "ingest_batch")]
    numbers += [given.item.turn for given in calls.given_to("ingest")]
    return [number for number, _ in groupby(numbers)]


@contextmanager
def no_unexplained_break() -> Iterator[None]:
    """Check that every request extends the one before, or that an entry explains why not."""
    breaks: list[LedgerRow] = []
    with watch(breaks.append):
        yield
    assert breaks == []
