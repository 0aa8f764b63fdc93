"""Treadle as the client of Treadle: an agent gives work to an agent."""

from __future__ import annotations

from pathlib import Path

from tests.cli.terminal import SCRIPT
from tests.harness.scenes import call, hear, last, scripted
from tests.mcp.scenes import outputs, thread_with
from tests.mcp_server.scenes import Place, run_ls
from treadle.config.mcp_settings import McpServerSettings
from treadle.harness.events import Event, QuestionsAsked
from treadle.mcp.server_settings import McpServer
from treadle.testing.script import Answer


async def test_a_question_of_the_inner_agent_reaches_the_user_of_the_outer(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    rights = ("--sandbox", "danger-full-access", "--approval", "untrusted", "--cwd")
    inner = ("mcp", "serve", "--model", place.script(run_ls(), Answer(text="It is made.")))
    settings = McpServerSettings(
        command=str(SCRIPT),
        args=("--home", str(place.home), *inner, *rights, str(place.project)),
        approval="approve",
        start_timeout=90.0,
    )
    model = scripted(
        Answer(calls=(call("mcp__treadle__run", prompt="make it"),)), Answer(text="Done.")
    )
    asked: list[str] = []
    async with thread_with(tmp_path, model, McpServer(name="treadle", settings=settings)) as outer:

        def reply(event: Event) -> None:
            if isinstance(event, QuestionsAsked):
                asked.append(event.questions[0].question)
                outer.answer(event.id, {event.questions[0].id: ("once",)})

        events = await hear(outer, "go", at=reply)
        assert last(events).status == "completed"
        (said,) = outputs(model.requests[-1].body)
    (question,) = asked
    assert "The MCP server 'treadle' asks" in question
    assert "touch made" in question
    assert (place.project / "made").exists()
    assert "It is made." in said
