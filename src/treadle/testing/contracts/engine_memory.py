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
from ..conversations import (
    ANNOUNCED,
    ANNOUNCEMENT,
    SUBJECT,
    FakeConversation,
    assemble_recall,
    bodies,
    conversation_fields,
)
from ..engine_fixture import dispose_engine
from .engine_powers import needs

__all__ = ["MemoryContract", "hand_over_turn"]

ASIDE = "quagga"
"""A word beside the subject that no prompt asks for."""


async def hand_over_turn(engine: ContextEngine, turn: CommitParams) -> None:
    """Give the engine an accepted turn with the call that the runtime would choose."""
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
    """What every engine must do with the turns that it is given."""

    @classmethod
    @abstractmethod
    async def make_engine(cls, home: Path) -> ContextEngine:
        """Make the engine, with `home` for its files."""

    @pytest.fixture
    def conversation(self) -> FakeConversation:
        return FakeConversation()

    async def test_a_turn_that_comes_again_changes_nothing(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        turns = [conversation.turn(f"{SUBJECT} number {number}", ASIDE) for number in range(3)]
        for turn in turns:
            await hand_over_turn(engine, turn)
        once = await assemble_recall(engine, conversation)
        for turn in turns:
            await hand_over_turn(engine, turn)
        assert await assemble_recall(engine, conversation) == once

    @needs("commit_turn")
    async def test_the_second_commit_of_a_key_is_a_duplicate(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, CommitsTurns)
        one, two = conversation.turn(SUBJECT), conversation.turn(SUBJECT)
        results = [await engine.commit_turn(turn) for turn in (one, two, one, two)]
        assert [result.status for result in results] == [
            "committed",
            "committed",
            "duplicate",
            "duplicate",
        ]

    @needs("commit_turn")
    async def test_keys_of_one_thread_say_nothing_of_another(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, CommitsTurns)
        other = FakeConversation("thr_other")
        turns = (conversation.turn(SUBJECT), other.turn(SUBJECT))
        results = [await engine.commit_turn(turn) for turn in turns]
        assert [result.status for result in results] == ["committed", "committed"]

    async def test_single_items_can_come_again(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        turn = conversation.turn(SUBJECT, ASIDE)
        given = {"thread": conversation.ref, "log": conversation}
        await _ingest(engine, turn, given)
        once = await assemble_recall(engine, conversation)
        await _ingest(engine, turn, given)
        assert await assemble_recall(engine, conversation) == once

    @needs("ingest_batch")
    async def test_batches_can_come_again(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, IngestsBatches)
        conversation.turn(SUBJECT, ASIDE)
        given = IngestBatchParams(
            thread=conversation.ref, log=conversation, **conversation_fields(conversation.rows)
        )
        assert isinstance(await engine.ingest_batch(given), IngestBatchResult)
        once = await assemble_recall(engine, conversation)
        await engine.ingest_batch(given)
        assert await assemble_recall(engine, conversation) == once

    @needs("after_turn")
    async def test_the_end_of_a_turn_can_be_told_again(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, FollowsTurns)
        conversation.turn(SUBJECT, ASIDE)
        given = AfterTurnParams(
            thread=conversation.ref,
            log=conversation,
            turn="turn_1",
            **conversation_fields(conversation.rows),
        )
        await engine.after_turn(given)
        once = await assemble_recall(engine, conversation)
        await engine.after_turn(given)
        assert await assemble_recall(engine, conversation) == once

    @needs("bootstrap")
    async def test_catching_up_twice_is_harmless(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, Bootstraps)
        conversation.turn(SUBJECT, ASIDE)
        given = BootstrapParams(thread=conversation.ref, log=conversation)
        assert isinstance(await engine.bootstrap(given), BootstrapResult)
        once = await assemble_recall(engine, conversation)
        await engine.bootstrap(given)
        assert await assemble_recall(engine, conversation) == once

    @needs("bootstrap")
    async def test_catching_up_with_nothing_is_harmless(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, Bootstraps)
        result = await engine.bootstrap(BootstrapParams(thread=conversation.ref, log=conversation))
        assert result.imported == 0

    @needs("bootstrap")
    async def test_what_was_caught_up_with_can_still_be_handed_over(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, Bootstraps)
        turn = conversation.turn(SUBJECT, ASIDE)
        await hand_over_turn(engine, turn)
        once = await assemble_recall(engine, conversation)
        await engine.bootstrap(BootstrapParams(thread=conversation.ref, log=conversation))
        await hand_over_turn(engine, turn)
        assert await assemble_recall(engine, conversation) == once

    async def test_threads_keep_to_themselves(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        await hand_over_turn(engine, conversation.turn(f"{SUBJECT} and {ASIDE}", ASIDE))
        other = FakeConversation("thr_other")
        before = await assemble_recall(engine, other)
        assert ASIDE.encode() not in bodies(before)
        await hand_over_turn(engine, conversation.turn(f"{SUBJECT} and {ASIDE}", ASIDE))
        assert await assemble_recall(engine, other) == before

    @pytest.mark.parametrize(
        "signals",
        [
            {"persist": False},
            {"provenance": ANNOUNCED, "events": (ANNOUNCEMENT,), "persist": False},
        ],
        ids=["volatile", "an announcement"],
    )
    async def test_what_is_volatile_is_not_kept(
        self, engine: ContextEngine, conversation: FakeConversation, signals: dict[str, Any]
    ) -> None:
        await hand_over_turn(
            engine, conversation.turn(f"{SUBJECT} and {ASIDE}", SUBJECT, **signals)
        )
        assert ASIDE.encode() not in bodies(await assemble_recall(engine, conversation))

    @needs("thread_reset")
    async def test_what_was_hidden_does_not_come_back(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, Resets)
        await hand_over_turn(engine, conversation.turn(f"{SUBJECT} of the plains"))
        kept = len(conversation.rows)
        await hand_over_turn(engine, conversation.turn(f"{SUBJECT} and {ASIDE}", ASIDE))
        await engine.thread_reset(
            ResetParams(
                thread=conversation.ref,
                log=conversation,
                reason="rollback",
                first=kept + 1,
                last=len(conversation.rows),
            )
        )
        assert ASIDE.encode() not in bodies(await assemble_recall(engine, conversation))

    @needs("thread_reset")
    async def test_a_thread_can_begin_again(
        self, engine: ContextEngine, conversation: FakeConversation
    ) -> None:
        assert isinstance(engine, Resets)
        turn = conversation.turn(SUBJECT, ASIDE)
        fresh = await assemble_recall(engine, conversation)
        await hand_over_turn(engine, turn)
        await engine.thread_reset(
            ResetParams(thread=conversation.ref, log=conversation, last=len(conversation.rows))
        )
        assert await assemble_recall(engine, conversation) == fresh

    async def test_what_it_took_in_outlives_it(
        self, engine: ContextEngine, conversation: FakeConversation, home: Path
    ) -> None:
        for number in range(3):
            await hand_over_turn(engine, conversation.turn(f"{SUBJECT} number {number}", ASIDE))
        before = await assemble_recall(engine, conversation)
        await dispose_engine(engine)
        again = await self.make_engine(home)
        try:
            assert await assemble_recall(again, conversation) == before
        finally:
            await dispose_engine(again)
