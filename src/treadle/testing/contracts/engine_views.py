"""The contract of an engine: what it gives for what it is given."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from ...core.specs import SPECS
from ...engines.contract import (
    ContextEngine,
    Disposes,
    FollowsSubagents,
    InterceptsCompaction,
    Maintains,
    OffersTools,
    PreparesSpawns,
)
from ...engines.defects import defects
from ...engines.values import (
    AssembleResult,
    CompactParams,
    CompactResult,
    InterceptParams,
    InterceptResult,
    MaintainParams,
    MaintainResult,
    SpawnParams,
    SubagentEndedParams,
)
from ..conversations import (
    SIGNALS,
    SUBJECT,
    FakeConversation,
    bodies,
    conversation_fields,
    pairing_faults,
    random_conversation,
    token_size,
)
from .engine_memory import hand_over_turn
from .engine_powers import needs

__all__ = ["ViewsContract"]


class ViewsContract:
    """What every engine must do when it is asked for a view."""

    @pytest.fixture
    def three_turns(self) -> FakeConversation:
        three_turns = FakeConversation()
        for number in range(3):
            three_turns.turn(f"{SUBJECT} number {number}", "It has stripes.")
        return three_turns

    async def test_it_is_sound_and_stays_who_it_is(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        info = engine.info
        assert defects(engine) == ()
        await engine.assemble(three_turns.assemble_params(SUBJECT))
        assert engine.info == info

    async def test_the_same_input_gives_the_same_view(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        given = three_turns.assemble_params(SUBJECT)
        assert await engine.assemble(given) == await engine.assemble(given)

    async def test_what_it_is_given_stays_as_it_is(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        given, twin = three_turns.assemble_params(SUBJECT), three_turns.assemble_params(SUBJECT)
        await engine.assemble(given)
        assert given == twin

    @pytest.mark.parametrize("budget", [None, 1_000_000, 2_000, 200, 20, 1, 0])
    async def test_a_view_fits_its_budget_or_is_no_larger_than_it_was(
        self, engine: ContextEngine, three_turns: FakeConversation, budget: int | None
    ) -> None:
        given = three_turns.assemble_params(SUBJECT, token_budget=budget)
        prompt = given.items[-1]
        result = await engine.assemble(given)
        fits = budget is None or token_size(result.items, prompt) <= budget
        assert fits or token_size(result.items, prompt) <= token_size(given.items, prompt)

    async def test_no_call_and_no_output_stands_alone(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        for visible in (None, 4, 8):
            for budget in (None, 300, 60):
                given = three_turns.assemble_params(SUBJECT, visible=visible, token_budget=budget)
                assert pairing_faults((await engine.assemble(given)).items) == []

    async def test_the_present_input_is_shown_or_covered(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        given = three_turns.assemble_params(SUBJECT)
        result = await engine.assemble(given)
        assert result.covers_current_turn or given.items[-1] in result.items

    async def test_what_it_shows_can_be_read(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        result = await engine.assemble(three_turns.assemble_params(SUBJECT))
        assert isinstance(result, AssembleResult)
        for item in result.items:
            assert msgspec.json.decode(item.body)["type"]

    async def test_there_may_be_nothing_to_show(self, engine: ContextEngine) -> None:
        result = await engine.assemble(FakeConversation().assemble_params(None))
        assert pairing_faults(result.items) == []

    async def test_there_may_be_nothing_but_an_input(self, engine: ContextEngine) -> None:
        given = FakeConversation().assemble_params(SUBJECT)
        result = await engine.assemble(given)
        assert result.covers_current_turn or given.items[-1] in result.items

    async def test_nobody_need_say_where_the_turn_begins(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        given = msgspec.structs.replace(
            three_turns.assemble_params(SUBJECT), pre_prompt_count=None, prompt=None
        )
        result = await engine.assemble(given)
        assert result.covers_current_turn or given.items[-1] in result.items

    @pytest.mark.parametrize("signals", SIGNALS)
    async def test_an_input_is_shown_whoever_wrote_it(
        self, engine: ContextEngine, three_turns: FakeConversation, signals: dict[str, Any]
    ) -> None:
        given = three_turns.assemble_params("The task is done.", **signals)
        result = await engine.assemble(given)
        assert result.covers_current_turn or given.items[-1] in result.items

    @pytest.mark.parametrize("seed", range(12))
    async def test_any_conversation_is_shown_soundly(
        self, engine: ContextEngine, seed: int
    ) -> None:
        chance = random.Random(seed)  # noqa: S311 - the same tests every time
        conversation, turns = random_conversation(chance)
        for turn in turns:
            await hand_over_turn(engine, turn)
        given = conversation.assemble_params(
            SUBJECT,
            visible=4 * chance.randrange(len(turns) + 1),
            token_budget=chance.choice([None, 100, 1_000, 100_000]),
            **chance.choice(SIGNALS),
        )
        result, prompt = await engine.assemble(given), given.items[-1]
        assert result == await engine.assemble(given)
        assert prompt in result.items or result.covers_current_turn
        assert pairing_faults(result.items) == []
        most = max(
            given.token_budget or token_size(result.items, prompt), token_size(given.items, prompt)
        )
        assert token_size(result.items, prompt) <= most

    async def test_a_compaction_frees_something_or_says_why_not(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        delegated = CompactResult(compacted=True, tokens_before=100, tokens_after=10)

        async def delegate() -> CompactResult:
            return delegated

        result = await engine.compact(_compaction(three_turns, delegate=delegate))
        assert isinstance(result, CompactResult)
        if result == delegated:
            return
        assert result.compacted == (result.rebase is not None)
        if result.rebase is None:
            assert result.reason
        else:
            given = sum(len(row.item.body) for row in three_turns.rows)
            assert sum(len(item.body) for item in result.rebase.items) < given
            assert pairing_faults(result.rebase.items) == []

    async def test_a_runtime_may_have_no_compaction_of_its_own(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        result = await engine.compact(_compaction(three_turns))
        assert result.rebase is not None or (not result.compacted and result.reason)

    async def test_a_compaction_can_be_broken_off(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        before = bodies(await engine.assemble(three_turns.assemble_params(SUBJECT)))
        cancelled = asyncio.Event()
        task = asyncio.ensure_future(
            engine.compact(_compaction(three_turns, delegate=_never, cancelled=cancelled))
        )
        await asyncio.wait((task,), timeout=0.05)
        cancelled.set()
        task.cancel()
        await asyncio.wait((task,))
        assert bodies(await engine.assemble(three_turns.assemble_params(SUBJECT))) == before

    @needs("maintain")
    async def test_maintenance_answers_and_can_be_broken_off(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        assert isinstance(engine, Maintains)
        cancelled = asyncio.Event()
        given = MaintainParams(
            thread=three_turns.ref,
            log=three_turns,
            cancelled=cancelled,
            **conversation_fields(three_turns.rows),
        )
        assert isinstance(await engine.maintain(given), MaintainResult)
        before = bodies(await engine.assemble(three_turns.assemble_params(SUBJECT)))
        task = asyncio.ensure_future(engine.maintain(given))
        await asyncio.sleep(0)
        cancelled.set()
        task.cancel()
        await asyncio.wait((task,))
        assert bodies(await engine.assemble(three_turns.assemble_params(SUBJECT))) == before

    @needs("intercept_compaction")
    async def test_it_sums_up_or_leaves_it(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        assert isinstance(engine, InterceptsCompaction)
        given = InterceptParams(
            thread=three_turns.ref, log=three_turns, **conversation_fields(three_turns.rows)
        )
        result = await engine.intercept_compaction(given)
        assert isinstance(result, InterceptResult)
        assert result == await engine.intercept_compaction(given)

    @needs("prepare_subagent_spawn")
    async def test_a_child_that_does_not_start_leaves_nothing(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        assert isinstance(engine, PreparesSpawns)
        before = await engine.assemble(three_turns.assemble_params(SUBJECT))
        for mode in ("isolated", "fork"):
            given = SpawnParams(
                parent=three_turns.ref, child=FakeConversation("thr_child").ref, mode=mode
            )
            rollback = await engine.prepare_subagent_spawn(given)
            if rollback is not None:
                await rollback()
        assert await engine.assemble(three_turns.assemble_params(SUBJECT)) == before

    @needs("on_subagent_ended")
    async def test_a_child_can_end_that_nobody_knew(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        assert isinstance(engine, FollowsSubagents)
        before = await engine.assemble(three_turns.assemble_params(SUBJECT))
        for _ in range(2):
            await engine.on_subagent_ended(SubagentEndedParams(child="thr_unknown"))
        assert await engine.assemble(three_turns.assemble_params(SUBJECT)) == before

    @needs("dispose")
    async def test_letting_go_twice_is_harmless(
        self, engine: ContextEngine, three_turns: FakeConversation
    ) -> None:
        assert isinstance(engine, Disposes)
        await engine.assemble(three_turns.assemble_params(SUBJECT))
        await engine.dispose()
        await engine.dispose()

    @needs("dispose")
    async def test_letting_go_of_nothing_is_harmless(self, engine: ContextEngine) -> None:
        assert isinstance(engine, Disposes)
        await engine.dispose()

    @needs("tools")
    async def test_its_tools_stay_the_same(self, engine: ContextEngine) -> None:
        assert isinstance(engine, OffersTools)
        specs = [SPECS.encode(tool.spec) for tool in engine.tools()]
        assert len(set(specs)) == len(specs)
        assert [SPECS.encode(tool.spec) for tool in engine.tools()] == specs


async def _never() -> CompactResult:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def _compaction(conversation: FakeConversation, **given: Any) -> CompactParams:
    tokens = sum(row.item.tokens for row in conversation.rows)
    return CompactParams(
        thread=conversation.ref,
        log=conversation,
        token_budget=tokens // 2,
        current_tokens=tokens,
        force=True,
        **conversation_fields(conversation.rows),
        **given,
    )
