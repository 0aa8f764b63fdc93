"""The real Codex behind our agent: its approvals, its end, and its thread."""

from __future__ import annotations

import asyncio

from acp.helpers import text_block

from tests.acp.scenes import Place, run_command, until
from treadle.cli.run_options import RunOptions
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script

ASKING = RunOptions(model="openai:gpt-5.5", harness="codex", approval="untrusted")


async def test_codex_asks_the_editor_and_is_cancelled_by_it(tmp_path, monkeypatch):
    place = Place(tmp_path, ASKING)
    script = (run_command("touch made"), run_command("sleep 60"), Answer(text="done"))
    async with FakeServer(Script(answers=script)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        async with place.connect() as (client, editor):
            session = await client.new_session(str(place.project))
            prompt = asyncio.ensure_future(client.prompt(session.session_id, [text_block("go")]))
            await until(lambda: len(editor.of("tool_call")) == 2 or None)
            assert (place.project / "made").exists()
            await client.cancel(session.session_id)
            assert (await prompt).stop_reason == "cancelled"
            done = await client.prompt(session.session_id, [text_block("again")])
    assert (done.stop_reason, editor.text) == ("end_turn", "done")
    assert "touch made" in (editor.asked[0][0].title or "")
    ended = {each.tool_call_id: each.status for each in editor.of("tool_call_update")}
    assert list(ended.values()) == ["completed", "failed"]
