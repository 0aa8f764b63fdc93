"""The contract of an engine: what it keeps, once, and for whom."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytest

from ...engines.contract import (
    Bootstraps,
    CommitsTurns,
    ContextEngine,
    FollowsTurns,
    IngestsBatches,
    Resets,
)
from ...engines.values import (
    AfterTurnParams,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    ResetParams,
)
from .engine_powers import needs
from .engine_scenes import ANNOUNCED, ANNOUNCEMENT, SUBJECT, Past, bodies, fields, shown
from .engine_threads import let_go

__all__ = ["MemoryContract", "take_in"]

ASIDE = "quagga"
"""Is said beside the subject, and never asked for."""


async def take_in(engine: ContextEngine, turn: CommitParams) -> None:
    """Hand over an accepted turn in the way that the runtime would choose."""
    conversation = {name: getattr(turn, name) for name in ("items", "provenance", "persist")}
    conversation["internal_events"] = turn.internal_events
    given: dict[str, Any] = {"thread": turn.thread, "log": turn.log}
    if isinstance(engine, CommitsTurns):
        await engine.commit_turn(turn)
    elif isinstance(engine, FollowsTurns):
        await engine.after_turn(
            AfterTurnParams(turn=turn.turn, outcomes=turn.outcomes, **conversation, **given)
        )
    elif isinstance(engine, IngestsBatches):
        await engine.ingest_batch(
            IngestBatchParams(outcomes=turn.outcomes, **conversation, **given)
        )
    else:
        await _ingest(engine, turn, given)


async def _ingest(engine: ContextEngine, turn: CommitParams, given: dict[str, Any]) -> None:
    rows = zip(turn.items, turn.provenance, turn.internal_events, turn.persist, strict=True)
    for item, provenance, events, persist in rows:
        if persist:
            result = await engine.ingest(
                IngestParams(item=item, provenance=provenance, internal_events=events, **given)
            )
            assert isinstance(result, IngestResult)


class MemoryContract(ABC):
    """What every engine must hold to when it is told of turns."""

    @classmethod
    @abstractmethod
    async def made(cls, home: Path) -> ContextEngine:
        """The engine, with `home` for what it keeps."""

    @pytest.fixture
    def past(self) -> Past:
        return Past()

    async def test_a_turn_that_comes_again_changes_nothing(
        self, engine: ContextEngine, past: Past
    ) -> None:
        turns = [past.turn(f"{SUBJECT} number {number}", ASIDE) for number in range(3)]
        for turn in turns:
            await take_in(engine, turn)
        once = await shown(engine, past)
        for turn in turns:
            await take_in(engine, turn)
        assert await shown(engine, past) == once

    @needs("commit_turn")
    async def test_the_second_commit_of_a_key_is_a_duplicate(
        self, engine: ContextEngine, past: Past
    ) -> None:
        assert isinstance(engine, CommitsTurns)
        one, two = past.turn(SUBJECT), past.turn(SUBJECT)
        results = [await engine.commit_turn(turn) for turn in (one, two, one, two)]
        assert [result.status for result in results] == [
            "committed",
            "committed",
            "duplicate",
            "duplicate",
        ]

    @needs("commit_turn")
    async def test_keys_of_one_thread_say_nothing_of_another(
        self, engine: ContextEngine, past: Past
    ) -> None:
        assert isinstance(engine, CommitsTurns)
        other = Past("thr_other")
        turns = (past.turn(SUBJECT), other.turn(SUBJECT))
        results = [await engine.commit_turn(turn) for turn in turns]
        assert [result.status for result in results] == ["committed", "committed"]

    async def test_single_items_can_come_again(self, engine: ContextEngine, past: Past) -> None:
        turn = past.turn(SUBJECT, ASIDE)
        given = {"thread": past.ref, "log": past}
        await _ingest(engine, turn, given)
        once = await shown(engine, past)
        await _ingest(engine, turn, given)
        assert await shown(engine, past) == once

    @needs("ingest_batch")
    async def test_batches_can_come_again(self, engine: ContextEngine, past: Past) -> None:
        assert isinstance(engine, IngestsBatches)
        past.turn(SUBJECT, ASIDE)
        given = IngestBatchParams(thread=past.ref, log=past, **fields(past.said))
        assert isinstance(await engine.ingest_batch(given), IngestBatchResult)
        once = await shown(engine, past)
        await engine.ingest_batch(given)
        assert await shown(engine, past) == once

    @needs("after_turn")
    async def test_the_end_of_a_turn_can_be_told_again(
        self, engine: ContextEngine, past: Past
    ) -> None:
        assert isinstance(engine, FollowsTurns)
        past.turn(SUBJECT, ASIDE)
        given = AfterTurnParams(thread=past.ref, log=past, turn="turn_1", **fields(past.said))
        await engine.after_turn(given)
        once = await shown(engine, past)
        await engine.after_turn(given)
        assert await shown(engine, past) == once

    @needs("bootstrap")
    async def test_catching_up_twice_is_harmless(self, engine: ContextEngine, past: Past) -> None:
        assert isinstance(engine, Bootstraps)
        past.turn(SUBJECT, ASIDE)
        given = BootstrapParams(thread=past.ref, log=past)
        assert isinstance(await engine.bootstrap(given), BootstrapResult)
        once = await shown(engine, past)
        await engine.bootstrap(given)
        assert await shown(engine, past) == once

    @needs("bootstrap")
    async def test_catching_up_with_nothing_is_harmless(
        self, engine: ContextEngine, past: Past
    ) -> None:
        assert isinstance(engine, Bootstraps)
        result = await engine.bootstrap(BootstrapParams(thread=past.ref, log=past))
        assert result.imported == 0

    @needs("bootstrap")
    async def test_what_was_caught_up_with_can_still_be_handed_over(
        self, engine: ContextEngine, past: Past
    ) -> None:
        assert isinstance(engine, Bootstraps)
        turn = past.turn(SUBJECT, ASIDE)
        await take_in(engine, turn)
        once = await shown(engine, past)
        await engine.bootstrap(BootstrapParams(thread=past.ref, log=past))
        await take_in(engine, turn)
        assert await shown(engine, past) == once

    async def test_threads_keep_to_themselves(self, engine: ContextEngine, past: Past) -> None:
        await take_in(engine, past.turn(f"{SUBJECT} and {ASIDE}", ASIDE))
        other = Past("thr_other")
        before = await shown(engine, other)
        assert ASIDE.encode() not in bodies(before)
        await take_in(engine, past.turn(f"{SUBJECT} and {ASIDE}", ASIDE))
        assert await shown(engine, other) == before

    @pytest.mark.parametrize(
        "signals",
        [
            {"persist": False},
            {"provenance": ANNOUNCED, "events": (ANNOUNCEMENT,), "persist": False},
        ],
        ids=["volatile", "an announcement"],
    )
    async def test_what_is_volatile_is_not_kept(
        self, engine: ContextEngine, past: Past, signals: dict[str, Any]
    ) -> None:
        await take_in(engine, past.turn(f"{SUBJECT} and {ASIDE}", SUBJECT, **signals))
        assert ASIDE.encode() not in bodies(await shown(engine, past))

    @needs("thread_reset")
    async def test_what_was_hidden_does_not_come_back(
        self, engine: ContextEngine, past: Past
    ) -> None:
        assert isinstance(engine, Resets)
        await take_in(engine, past.turn(f"{SUBJECT} of the plains"))
        kept = len(past.said)
        await take_in(engine, past.turn(f"{SUBJECT} and {ASIDE}", ASIDE))
        await engine.thread_reset(
            ResetParams(
                thread=past.ref, log=past, reason="rollback", first=kept + 1, last=len(past.said)
            )
        )
        assert ASIDE.encode() not in bodies(await shown(engine, past))

    @needs("thread_reset")
    async def test_a_thread_can_begin_again(self, engine: ContextEngine, past: Past) -> None:
        assert isinstance(engine, Resets)
        turn = past.turn(SUBJECT, ASIDE)
        fresh = await shown(engine, past)
        await take_in(engine, turn)
        await engine.thread_reset(ResetParams(thread=past.ref, log=past, last=len(past.said)))
        assert await shown(engine, past) == fresh

    async def test_what_it_took_in_outlives_it(
        self, engine: ContextEngine, past: Past, home: Path
    ) -> None:
        for number in range(3):
            await take_in(engine, past.turn(f"{SUBJECT} number {number}", ASIDE))
        before = await shown(engine, past)
        await let_go(engine)
        again = await self.made(home)
        try:
            assert await shown(again, past) == before
        finally:
            await let_go(again)
