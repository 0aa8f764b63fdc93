from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from msgspec import Raw

from tests.context.scenes import (
    CONTEXT,
    OTHER_MODEL,
    Scene,
    answer,
    call,
    output,
    scene,
    user,
    verdict,
)
from treadle.context.compose import item_draft
from treadle.context.layout import row_lines
from treadle.context.request import Renderer
from treadle.context.view import View, load_view
from treadle.context.visible import visible_backwards
from treadle.core.entries import Epoch, Flags, Reason, RequestMark
from treadle.core.errors import IllegalCut
from treadle.prompt import Known, Unrecorded
from treadle.store.contract import Change
from treadle.store.memory import MemoryStore
from treadle.testing import layout


async def loaded(found: Scene, upto: int | None = None) -> View:
    thread = found.thread
    return await load_view(thread.store, thread.id, thread.registry, upto=upto)


async def test_an_empty_log_shows_nothing():
    async with scene() as found:
        assert await loaded(found) == found.thread.view
        assert (found.thread.view.rows, found.thread.view.epoch) == ([], 0)


async def test_what_the_user_was_told_and_what_was_noted_is_not_shown():
    async with scene() as found:
        await found.turn("u1")
        shown = found.thread.request()
        await found.thread.log.note("The disk is nearly full.", level="warning")
        await found.thread.log.configure(goal="Ship it")
        assert found.thread.request().body == shown.body
        assert await loaded(found) == found.thread.view


async def test_the_head_is_named_by_the_log_and_shared_by_digest():
    async with scene() as found:
        await found.turn("u1")
        entries = await found.thread.store.read(found.thread.id)
        (epoch,) = [entry.control for entry in entries if entry.kind == "epoch"]
        assert isinstance(epoch, Epoch)
        assert (epoch.reason, epoch.recipe) == (Reason.START, None)
        assert (await loaded(found)).head == found.thread.view.head


async def test_every_earlier_request_can_be_made_again_from_the_log():
    async with scene() as found:
        await found.turn("u1")
        found.change(cwd="/elsewhere")
        await found.say("u2")
        await found.call_tool(2)
        await found.step(answer())
        await found.thread.log.epochs.rebase(len(found.thread.view.rows))
        await found.turn("u3")
        await found.thread.rollback()
        found.thread.log.setup.use_model(OTHER_MODEL)
        await found.turn("u4")
        entries = await found.thread.store.read(found.thread.id)
        marks = [entry.control for entry in entries if entry.kind == "request"]
        assert len(marks) == 5
        for mark in marks:
            assert isinstance(mark, RequestMark)
            again = Renderer().render(await loaded(found, mark.upto))
            made = RequestMark(again.upto, again.epoch, again.digest, len(again.body), again.items)
            assert made == mark


async def test_a_rollback_of_a_rollback_hides_both_stretches():
    async with scene() as found:
        for n in range(1, 4):
            await found.turn(f"u{n}")
        await found.thread.rollback()
        await found.turn("u4")
        await found.thread.rollback(2)
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 assistant  answer to u1
""")
        assert await loaded(found) == found.thread.view
        turns = [e.turn async for e in visible_backwards(found.thread.store, found.thread.id)]
        assert {turn for turn in turns if turn} == {1, 4}


async def test_a_revert_to_a_hidden_entry_shows_it_again():
    async with scene() as found:
        await found.turn("u1")
        await found.turn("u2")
        shown, last = layout(found.thread), found.thread.view.upto
        await found.thread.rollback()
        assert layout(found.thread) != shown
        assert await found.thread.revert(last) == last
        assert layout(found.thread) == shown


async def test_a_row_tells_its_state_only_through_its_mark():
    async with scene() as found:
        await found.turn("u1")
        known = found.thread.view.baselines["environment"]
        assert known == Known(
            Raw(
                b'{"cwd":"/repo","approval_policy":"on-request","sandbox":{"mode":'
                b'"workspace-write","network_access":"restricted"},"shell":"bash"}'
            )
        )


async def test_a_state_that_was_silent_is_known_all_the_same():
    async with scene() as found:
        await found.turn("u1")
        found.change(shell="zsh")
        rows = len(found.thread.view.rows)
        await found.turn("u2")
        assert [row.shape.role for row in found.thread.view.rows[rows:]] == ["user", "assistant"]
        known = found.thread.view.baselines["environment"]
        assert isinstance(known, Known)
        assert b'"shell":"zsh"' in bytes(known.snapshot)


async def test_the_size_of_a_view_is_the_sum_of_its_rows():
    async with scene() as found:
        await found.turn("u1")
        await found.say("u2")
        await found.call_tool(2, "x" * 4000)
        view = found.thread.view
        assert view.tokens == sum(row.tokens for row in view.rows)
        assert (await loaded(found)).tokens == view.tokens


async def test_a_person_who_types_a_tag_keeps_their_turn():
    typed = "<environment_context>\n  <cwd>/tmp</cwd>\n</environment_context>"
    async with scene() as found:
        await found.turn("u1")
        await found.turn(typed)
        rows = found.thread.view.rows
        assert [str(line) for line in row_lines(rows, found.thread.registry)][-2] == snapshot(
            "05 user       <environment_context> <cwd>/tmp</cwd> </environment_context>"
        )
        assert [row.contextual for row in rows][-2:] == [False, False]
        known = found.thread.view.baselines["environment"]
        await found.thread.rollback()
        assert found.thread.view.baselines["environment"] == known
        assert typed not in layout(found.thread)


async def test_an_imported_entry_with_that_text_is_context():
    told = user("<environment_context>\n  <cwd>/tmp</cwd>\n</environment_context>")
    store = MemoryStore()
    thread = await store.create()
    lease = await store.acquire(thread.id)
    drafts = (item_draft(told, flags=Flags.CONTEXTUAL), item_draft(user("hi")))
    await store.commit(lease, Change(entries=drafts))
    await lease.release()
    async with scene(store, thread=thread.id) as found:
        assert [row.contextual for row in found.thread.view.rows] == [True, False]
        assert found.thread.view.baselines == {"environment": Unrecorded()}
        await found.say("go on")
        assert layout(found.thread) == snapshot("""\
00 user       <environment>
01 user       hi
02 developer  <permissions>
03 user       <agents_md>
04 user       <environment>
05 user       go on
""")


async def test_a_rollback_reaches_no_further_than_the_first_turn():
    async with scene() as found:
        await found.turn("u1")
        await found.turn("u2")
        with pytest.raises(IllegalCut, match="has 2 turns that can be rolled back, not 3"):
            await found.thread.rollback(3)
        await found.thread.rollback(2)
        assert (found.thread.view.rows, found.thread.view.head) == ([], None)
        await found.say("u3")
        row = await found.send()
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u3
""")
        assert verdict(row) == snapshot(
            "epoch 14; 3 items shared; rollback+start at item 3 (entry 5)"
        )


async def test_a_rollback_takes_along_what_the_turn_was_told():
    async with scene() as found:
        await found.turn("u1")
        found.change(cwd="/elsewhere")
        await found.turn("u2")
        await found.thread.rollback()
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 assistant  answer to u1
""")
        await found.say("u2 again")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 assistant  answer to u1
05 user       <environment>
06 user       u2 again
""")


async def test_a_rolled_back_model_switch_brings_the_first_model_back():
    async with scene() as found:
        await found.turn("u1")
        found.thread.log.setup.use_model(OTHER_MODEL)
        found.change(model="gpt-5.2")
        await found.turn("u2")
        await found.thread.rollback()
        assert found.thread.view.head is not None
        assert found.thread.view.head.model == "gpt-5.5"


async def test_a_copy_grows_on_its_own():
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        view = found.thread.view
        copied = view.copy()
        await found.thread.log.append(output(1))
        assert [row.shape.call_id for row in copied.open_calls] == ["call_1"]
        assert view.open_calls == []
        assert len(view.rows) == len(copied.rows) + 1


async def test_an_open_call_is_known_to_a_view_loaded_again():
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1), call(2))
        await found.thread.log.append(output(2))
        assert [row.shape.call_id for row in (await loaded(found)).open_calls] == ["call_1"]


async def test_two_threads_with_the_same_words_send_the_same_items():
    async with scene() as one, scene() as other:
        for found in (one, other):
            await found.turn("u1")
        bodies = [
            found.thread.request().body.replace(found.thread.id.encode(), b"")
            for found in (one, other)
        ]
        assert bodies[0] == bodies[1]
        assert CONTEXT.cwd.encode() in bodies[0]
