from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.harness.scenes import hear, last, open_thread, scripted
from treadle.core.entries import Reason
from treadle.core.items import Compaction
from treadle.testing import layout
from treadle.testing.script import Answer, ScriptedError

LONG = "many words " * 2_000


@pytest.mark.parametrize("form", ["endpoint", "trigger"])
async def test_a_provider_that_can_compacts_the_conversation_itself(tmp_path, form):
    model = scripted(
        Answer(text=LONG),
        Answer(endpoint="compact", text="sealed words"),
        Answer(text="I remember."),
        remote_compaction=form,
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        done = await thread.compact()
        (sealed,) = [row for row in thread.view.rows if isinstance(row.item, Compaction)]
        assert sealed.origin == thread.log.origin
        assert last(await hear(thread, "two")).text == "I remember."
        assert layout(thread) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       one
03 compaction
04 user       two
05 assistant  I remember.
""")
        assert thread.view.reason is Reason.COMPACTION
    assert done.by == "provider"
    asked, after = model.requests[1:]
    assert b"sealed words" in after.body
    if form == "trigger":
        assert asked.path == "/v1/responses"
        assert asked.body.startswith(model.requests[0].body.removesuffix(b"]}"))
        assert asked.body.endswith(b'{"type":"compaction_trigger"}]}')
        assert b"compaction_trigger" not in after.body
    else:
        assert asked.path == "/v1/responses/compact"
        assert "stream" not in asked.payload


@pytest.mark.parametrize("form", ["endpoint", "trigger"])
@pytest.mark.parametrize(
    "failure",
    [
        Answer(endpoint="compact", error=ScriptedError(status=404, message="no such thing")),
        Answer(endpoint="compact", body='{"id":"resp_1","output":[]}'),
        Answer(endpoint="compact", error=ScriptedError(status=400, code="context_length_exceeded")),
    ],
    ids=["404", "nothing", "too long"],
)
async def test_where_the_provider_fails_a_summary_is_asked_for(tmp_path, form, failure):
    model = scripted(
        Answer(text=LONG), failure, Answer(text="our own summary"), remote_compaction=form
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        done = await thread.compact()
        assert done.by == "linear"
        assert b"our own summary" in thread.request().body


async def test_another_provider_never_sees_the_sealed_item(tmp_path):
    model = scripted(
        Answer(text=LONG), Answer(endpoint="compact", text="sealed"), remote_compaction="trigger"
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        await thread.compact()
        name = thread.id
    other = scripted(Answer(text="what was it?"), api="chat")
    async with open_thread(tmp_path, other, thread=name) as thread:
        assert last(await hear(thread, "two")).text == "what was it?"
    assert b"sealed" not in other.requests[0].body
