from __future__ import annotations

from inline_snapshot import snapshot

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.harness.events import CompactionFinished
from treadle.testing import layout
from treadle.testing.script import Answer

from .test_linear import FULL, LIMIT, LONG, look

ANNOUNCED = InputProvenance(
    kind="inter_session", source_thread="thr_child", source_tool="subagent_announce"
)
DONE = InternalEvent(
    source="subagent", child_thread="thr_child", task="tests", status="ok", result="412 passed"
)


async def test_an_announcement_is_compacted_into_nothing_but_its_answer(tmp_path):
    model = scripted(Answer(text=LONG), Answer(text="All pass."), Answer(text="a summary"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        await hear(thread, "agent one is done", provenance=ANNOUNCED, events=[DONE])
        before = model.requests[1].body
        await thread.compact()
        assert layout(thread) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       one
03 user       The earlier part of this conversation was left out to make …
""")
    assert b"412 passed" in before
    asked = model.requests[-1].body
    assert (b"412 passed" in asked, b"All pass." in asked) == (False, True)


async def test_an_announcement_that_opened_the_turn_stays_while_the_turn_is_compacted(tmp_path):
    model = scripted(
        Answer(calls=(call("look", words=4_000),)),
        Answer(calls=(call("look", words=10),), usage=FULL),
        Answer(text="Looked once."),
        Answer(text="done"),
    )
    async with open_thread(tmp_path, model, tools=(look,), facts=LIMIT) as thread:
        events = await hear(thread, "agent one is done", provenance=ANNOUNCED, events=[DONE])
        assert layout(thread) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       The earlier part of this conversation was left out to make …
03 user       <inter_session> <text> <inter_session_end> <task_completion>
04 call       look({"words":10})
05 output     look seen seen seen seen seen seen seen seen seen seen
06 assistant  done
""")
        assert [row.volatile for row in thread.view.rows].index(True) == 3
    assert last(events).text == "done"
    assert len(of(events, CompactionFinished)) == 1
