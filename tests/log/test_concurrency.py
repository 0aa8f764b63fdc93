from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.context.scenes import Scene, call, open_thread, output
from treadle.context.view import load_view
from treadle.core.errors import StaleEpoch
from treadle.store.sqlite import SqliteStore
from treadle.testing import layout


@pytest.fixture
async def found(tmp_path: Path) -> AsyncIterator[Scene]:
    async with await SqliteStore.open(tmp_path) as store, open_thread(store) as thread:
        yield Scene(thread)


async def assert_current(found: Scene) -> None:
    thread = found.thread
    assert thread.view == await load_view(thread.store, thread.id, thread.registry)


async def test_tools_that_end_together_are_recorded_one_after_the_other(found):
    await found.say("u1")
    await found.step(*(call(n) for n in range(8)))
    await asyncio.gather(*(found.thread.log.append(output(n)) for n in range(8)))
    assert found.thread.view.open_calls == []
    await assert_current(found)


async def test_what_is_recorded_while_a_new_base_is_made_is_shown(found):
    await found.turn("u1")
    await found.say("u2")
    await found.step(call(1))
    await asyncio.gather(
        found.thread.log.append(output(1)),
        found.thread.log.epochs.rebase(0),
        found.thread.log.append(output("late")),
        found.thread.log.epochs.rebase(0),
        found.thread.log.append(output("later")),
    )
    shown = [row.shape.call_id for row in found.thread.view.rows if row.shape.call_id]
    assert shown == ["call_1", "call_1", "call_late", "call_later"]
    await assert_current(found)


async def test_what_came_after_a_recipe_was_planned_stays(found):
    await found.turn("u1")
    planned, recipe = found.thread.view, found.thread.log.epochs.plan_base(5)
    epoch, upto = planned.epoch, planned.upto
    await found.say("u2")
    await found.call_tool(2)
    await found.thread.log.epochs.publish(recipe, epoch=epoch, upto=upto)
    assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u2
04 reasoning
05 call       exec_command({"cmd":"ls"})
06 output     exec_command README.md
""")
    await assert_current(found)


async def test_of_two_recipes_for_one_epoch_only_the_first_is_published(found):
    await found.turn("u1")
    epoch = found.thread.view.epoch
    recipe = found.thread.log.epochs.plan_base(0)
    published = await asyncio.gather(
        *(found.thread.log.epochs.publish(recipe, epoch=epoch) for _ in range(3)),
        return_exceptions=True,
    )
    assert [type(each) for each in published] == [type(None), StaleEpoch, StaleEpoch]
    await assert_current(found)


async def test_two_inputs_at_once_are_told_the_context_once(found):
    await asyncio.gather(found.say("u1"), found.say("u2"))
    assert [row.contextual for row in found.thread.view.rows] == [True] * 3 + [False] * 2
    await assert_current(found)
