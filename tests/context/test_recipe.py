from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from msgspec import Raw

from tests.context.scenes import OTHER_MODEL, Scene, call, output, scene, user, verdict
from treadle.context.recipe import first_context, ranges
from treadle.context.row import Row, Shape
from treadle.context.view import load_view
from treadle.core.entries import Inline, Range, Recipe
from treadle.core.errors import IllegalCut, StaleEpoch
from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    encode_item,
    text_of,
)
from treadle.prompt import AgentsDocs
from treadle.testing import layout


async def compacted(found: Scene, text: str) -> None:
    """What a linear engine does: retained user messages, then a summary."""
    rows = found.thread.view.rows
    said = [row for row in rows if row.shape.role == "user" and not row.contextual]
    retained = [row.as_inline() for row in said if b"summary" not in row.body]
    told = Inline(body=Raw(encode_item(user(text))), tokens=4)
    await found.thread.log.epochs.rebase(len(rows), after=[*retained, told])


async def test_a_linear_compaction_keeps_the_first_context_and_the_users_words():
    async with scene() as found:
        await found.turn("u1")
        found.change(cwd="/elsewhere")
        await found.turn("u2")
        await found.call_tool(2)
        await compacted(found, "summary")
        await found.say("u3")
        row = await found.send()
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       <environment>
04 user       u1
05 user       u2
06 user       summary
07 user       u3
""")
        assert verdict(row) == snapshot("epoch 19; 3 items shared; compaction at item 3 (entry 5)")


async def test_two_compactions_in_a_row_keep_the_bytes_of_the_first_context():
    async with scene() as found:
        await found.turn("u1")
        opening, said, _ = found.thread.request().body.partition(encode_item(user("u1")))
        assert said
        found.change(cwd="/elsewhere")
        await found.turn("u2")
        await compacted(found, "first summary")
        await found.turn("u3")
        await compacted(found, "second summary")
        row = await found.send()
        assert found.thread.request().body.startswith(opening)
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       <environment>
04 user       u1
05 user       u2
06 user       u3
07 user       second summary
""")
        assert verdict(row) == snapshot("epoch 19; 6 items shared; compaction at item 6")


async def test_a_state_noted_without_words_survives_two_new_bases():
    async with scene() as found:
        await found.turn("u1")
        found.change(shell="zsh")
        await found.turn("u2")
        known = dict(found.thread.view.baselines)
        for n in (1, 2):
            node = await found.summary(n, 1, 9)
            await found.thread.log.epochs.rebase(len(found.thread.view.rows), before=[node])
            assert found.thread.view.baselines == known


async def test_agents_md_edited_before_a_new_base_is_told_again_whole():
    async with scene() as found:
        await found.turn("u1")
        found.change(agents_docs=AgentsDocs("/repo", "Run them twice."))
        await found.turn("u2")
        await compacted(found, "summary")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       <agents_md>
04 user       u1
05 user       u2
06 user       summary
""")
        assert b"Run them twice." in found.thread.request().body


async def test_a_model_switch_before_a_new_base_is_told_again_with_its_instructions():
    async with scene() as found:
        await found.turn("u1")
        found.thread.log.setup.use_model(OTHER_MODEL)
        found.change(model="gpt-5.2", model_instructions="Be brief.")
        await found.turn("u2")
        await compacted(found, "summary")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 developer  <model_switch>
04 user       u1
05 user       u2
06 user       summary
""")
        assert b"Be brief." in found.thread.request().body
        row = await found.turn("u3")
        assert verdict(row) == snapshot("epoch 15; 3 items shared; compaction at item 3 (entry 5)")


async def test_a_new_base_after_a_rollback_shows_nothing_hidden():
    async with scene() as found:
        await found.turn("u1")
        await found.turn("u2 hidden")
        await found.thread.rollback()
        await found.turn("u3")
        await found.turn("u4 hidden")
        await found.turn("u5 hidden")
        await found.thread.rollback(2)
        await found.turn("u6")
        before = layout(found.thread)
        await found.thread.log.epochs.rebase(0)
        assert layout(found.thread) == before
        assert "hidden" not in before
        await found.thread.log.epochs.rebase(0)
        assert layout(found.thread) == before


async def test_the_task_is_told_again_whenever_the_conversation_that_said_it_is_gone():
    async with scene() as found:
        await found.thread.log.configure(goal="Ship it")
        await found.turn("u1")
        await compacted(found, "first summary")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       <task_state>
04 user       u1
05 user       first summary
""")
        await compacted(found, "second summary")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       <task_state>
04 user       u1
05 user       second summary
""")


async def test_without_a_task_none_is_told():
    async with scene() as found:
        await found.turn("u1")
        await compacted(found, "summary")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 user       summary
""")


async def test_a_cut_inside_a_step_is_refused():
    async with scene() as found:
        await found.turn("u1")
        await found.say("u2")
        await found.call_tool(2)
        rows = found.thread.view.rows
        inside = next(at for at, row in enumerate(rows) if row.shape.type == "function_call")
        with pytest.raises(IllegalCut, match=f"row {inside} lies inside a step"):
            await found.thread.log.epochs.rebase(inside)


async def test_a_new_base_waits_for_the_output_of_a_running_call():
    async with scene() as found:
        await found.turn("u1")
        await found.say("u2")
        await found.step(call(2))
        with pytest.raises(IllegalCut):
            await found.thread.log.epochs.rebase(len(found.thread.view.rows))
        await found.thread.log.append(output(2))
        await found.thread.log.epochs.rebase(len(found.thread.view.rows))
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
""")


async def test_plan_and_files_outlive_two_compactions():
    plan = '{"plan":[{"step":"read","status":"completed"},{"step":"write","status":"in_progress"}]}'
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
    applied = "Success. Updated the following files:\nM a.py\n"
    async with scene() as found:
        await found.say("u1")
        await found.step(
            FunctionCall(name="update_plan", arguments=plan, call_id="p"),
            CustomToolCall(name="apply_patch", input=patch, call_id="q"),
        )
        await found.thread.log.append(
            FunctionCallOutput(call_id="p", output="Plan updated"),
            CustomToolCallOutput(call_id="q", output=applied),
        )
        await compacted(found, "first summary")
        first = found.thread.view.rows[3].item
        await found.turn("u2")
        await compacted(found, "second summary")
        second = found.thread.view.rows[3].item
        assert first == second
        assert isinstance(second, Message)
        assert text_of(second.content) == snapshot("""\
<task_state>
Plan:
- [x] read
- [>] write

Files touched:
- a.py
</task_state>\
""")


async def test_a_summary_is_read_back_from_its_blob():
    async with scene() as found:
        await found.turn("u1")
        node = await found.summary(1, 1, 5)
        await found.thread.log.epochs.publish(Recipe((node,)), epoch=found.thread.view.epoch)
        (row,) = found.thread.view.rows
        assert (row.item, row.node) == (user("summary 1"), node)


async def test_ranges_join_what_lies_side_by_side_and_stop_at_gaps():
    def row(seq: int) -> Row:
        return Row(body=b"{}", shape=Shape(), seq=seq)

    rows = [row(seq) for seq in (1, 2, 5, 6, 9)]
    assert ranges(rows, []) == [Range(1, 9)]
    assert ranges(rows, [(3, 4)]) == [Range(1, 2), Range(5, 9)]
    assert ranges(rows, [(3, 4), (7, 8)]) == [Range(1, 2), Range(5, 6), Range(9, 9)]
    assert ranges([*rows, row(4)], []) == [Range(1, 9), Range(4, 4)]


async def test_the_first_context_ends_where_someone_else_speaks():
    async with scene() as found:
        await found.turn("u1")
        rows = found.thread.view.rows
        assert first_context(rows) == rows[:3]
        assert first_context(rows[3:]) == []


async def test_a_recipe_planned_for_another_epoch_is_refused():
    async with scene() as found:
        await found.turn("u1")
        epoch = found.thread.view.epoch
        recipe = Recipe((Range(1, 2),))
        await found.thread.log.epochs.publish(recipe, epoch=epoch)
        with pytest.raises(StaleEpoch, match=f"planned for epoch {epoch}, thread .* plan it again"):
            await found.thread.log.epochs.publish(recipe, epoch=epoch)


async def test_settings_are_carried_over_a_new_base():
    async with scene() as found:
        await found.thread.log.configure(goal="Ship it", pace="slow")
        await found.turn("u1")
        await found.thread.log.epochs.rebase(0)
        await found.thread.log.configure(pace=None)
        loaded = await load_view(found.thread.store, found.thread.id, found.thread.registry)
        assert loaded.settings == found.thread.view.settings
        assert loaded.settings["goal"] == Raw(b'"Ship it"')
