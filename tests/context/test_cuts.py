from __future__ import annotations

import pytest

from tests.context.scenes import Scene, answer, call, output, reasoning, scene
from treadle.context.cuts import step_boundary, turn_start
from treadle.core.entries import Entry
from treadle.core.errors import IllegalCut


async def boundary(found: Scene, seq: int) -> int:
    thread = found.thread
    return await step_boundary(thread.store, thread.id, thread.registry, seq)


async def entries(found: Scene) -> list[Entry]:
    return await found.thread.store.read(found.thread.id)


async def first_of(found: Scene, turn: int) -> int:
    return next(entry.seq for entry in await entries(found) if entry.turn == turn)


async def test_a_turn_starts_with_its_epoch_and_what_it_was_told():
    async with scene() as found:
        await found.turn("u1")
        found.change(cwd="/elsewhere")
        found.thread.log.setup.choices = type(found.thread.log.setup.choices)(effort="high")
        await found.turn("u2")
        start = await turn_start(found.thread.store, found.thread.id, 1)
        begun = [(e.kind, e.turn) for e in await entries(found) if e.seq >= start][:3]
        assert begun == [("epoch", 2), ("item", 2), ("item", 2)]


@pytest.mark.parametrize("turns", [0, -1])
async def test_less_than_one_turn_cannot_be_rolled_back(turns):
    async with scene() as found:
        await found.turn("u1")
        with pytest.raises(IllegalCut, match=f"cannot roll back {turns} turns; ask for at least"):
            await found.thread.rollback(turns)


async def test_a_turn_that_was_rolled_back_does_not_count_again():
    async with scene() as found:
        for n in range(1, 4):
            await found.turn(f"u{n}")
        await found.thread.rollback()
        await found.thread.log.note("rolled back")
        await found.thread.rollback()
        assert [row.turn for row in found.thread.view.rows][-1] == 1


async def test_the_answer_to_a_lost_call_stays_with_the_call_when_the_next_turn_goes():
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        await found.turn("u2")
        await found.thread.rollback()
        assert [row.shape.type for row in found.thread.view.rows][-2:] == [
            "function_call",
            "function_call_output",
        ]


@pytest.mark.parametrize("seq", [-1, 1000])
async def test_a_cut_outside_the_log_is_refused(seq):
    async with scene() as found:
        await found.turn("u1")
        with pytest.raises(IllegalCut, match=f"has no entry {seq}; choose one from 0 to"):
            await found.thread.revert(seq)


async def test_a_cut_before_everything_is_legal():
    async with scene() as found:
        await found.turn("u1")
        assert await found.thread.revert(0) == 0
        assert found.thread.view.rows == []


async def test_a_cut_at_the_end_of_a_step_stays():
    async with scene() as found:
        await found.turn("u1")
        await found.say("u2")
        await found.call_tool(2)
        kept = found.thread.view.upto
        await found.step(answer())
        assert await boundary(found, kept) == kept
        assert await boundary(found, found.thread.view.upto) == found.thread.view.upto


async def test_a_cut_inside_a_step_moves_to_its_start():
    async with scene() as found:
        await found.say("u1")
        await found.step(reasoning(1), call(1), call(2))
        await found.thread.log.append(output(1), output(2))
        said = next(row.seq for row in found.thread.view.rows if not row.contextual)
        inside = [row.seq for row in found.thread.view.rows if row.step == 1][:-1]
        assert len(inside) == 4
        for seq in inside:
            assert seq is not None
            kept = await boundary(found, seq)
            visible = [e.seq for e in await entries(found) if e.kind == "item" and e.seq <= kept]
            assert visible[-1] == said


async def test_a_cut_inside_a_turns_opening_moves_before_the_turn():
    async with scene() as found:
        await found.turn("u1")
        found.change(cwd="/elsewhere")
        await found.say("u2")
        opening = await first_of(found, 2)
        assert await boundary(found, opening) == opening - 1


async def test_a_cut_after_a_call_that_still_runs_moves_before_its_step():
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        kept = await found.thread.revert(found.thread.view.upto)
        assert kept < found.thread.view.upto
        assert [row.shape.type for row in found.thread.view.rows] == ["message"] * 4


async def test_a_cut_inside_the_first_step_of_a_new_base_hides_only_that_step():
    async with scene() as found:
        await found.turn("u1")
        found.change(cwd="/elsewhere")
        await found.say("u2")
        opening = await first_of(found, 2)
        await found.thread.log.epochs.rebase(
            found.start_of_turn(), before=[await found.summary(1, 1, opening - 1)]
        )
        assert await found.thread.revert(opening) == opening - 1
        assert [row.turn for row in found.thread.view.rows] == [1] * 5


async def test_a_cut_inside_a_step_that_was_rolled_back_moves_to_its_start_too():
    async with scene() as found:
        await found.turn("u1")
        await found.say("u2")
        await found.step(call(1))
        await found.thread.log.append(output(1))
        called = next(row.seq for row in found.thread.view.rows if row.shape.type[-4:] == "call")
        assert called is not None
        before = await boundary(found, called)
        await found.thread.revert(before)
        assert before < called
        assert await boundary(found, called) == before
