"""Approvals, questions and cancellation, over the official client."""

from __future__ import annotations

import asyncio

import pytest
from acp.helpers import text_block

from tests.acp.scenes import ASKING, Editor, Place, run_command, until
from treadle.testing.script import Answer, Call

TOUCH = (run_command("touch made"), Answer(text="ok"))


@pytest.mark.parametrize(
    ("option", "made", "stop"),
    [
        ("once", True, "end_turn"),
        ("thread", True, "end_turn"),
        ("no", False, "end_turn"),
        ("invented", False, "end_turn"),
        ("stop", False, "cancelled"),
        (None, False, "cancelled"),
    ],
)
async def test_an_approval_is_asked_and_obeyed(tmp_path, option, made, stop):
    place, editor = Place(tmp_path, ASKING), Editor(allows=option)
    async with place.connect(*TOUCH, editor=editor) as (client, _):
        session = await client.new_session(str(place.project))
        done = await client.prompt(session.session_id, [text_block("go")])
    assert ((place.project / "made").exists(), done.stop_reason) == (made, stop)
    (call, options), *others = editor.asked
    assert not others
    assert "touch made" in (call.title or "")
    # It is about the call that the client was told of, not about another one.
    assert call.tool_call_id == editor.of("tool_call")[0].tool_call_id
    kinds = [each.kind for each in options]
    assert kinds[:2] == ["allow_once", "allow_always"]
    assert kinds[-2:] == ["reject_once", "reject_always"]


async def test_a_command_that_was_allowed_for_the_session_is_not_asked_again(tmp_path):
    place, editor = Place(tmp_path, ASKING), Editor(allows="thread")
    script = (run_command("touch made"), run_command("touch made"), Answer(text="ok"))
    async with place.connect(*script, editor=editor) as (client, _):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("go")])
    assert len(editor.asked) == 1


QUESTION = Answer(
    calls=(
        Call(
            name="request_user_input",
            arguments={
                "questions": [
                    {
                        "id": "colour",
                        "header": "Colour",
                        "question": "Which one?",
                        "options": [
                            {"label": "red", "description": "warm"},
                            {"label": "blue", "description": "cold"},
                        ],
                    }
                ]
            },
        ),
    )
)


async def test_questions_of_the_model_reach_a_client_with_forms(tmp_path):
    place, editor = Place(tmp_path), Editor(fills_in={"colour": "red"})
    async with place.connect(QUESTION, Answer(text="ok"), editor=editor) as (client, _):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("paint it")])
    assert editor.forms[0][0] == "Colour: Which one?"
    told = editor.of("tool_call_update")[-1].content[-1].content.text
    assert '"colour":{"answers":["red"]}' in told


async def test_questions_are_declined_for_a_client_without_forms(tmp_path):
    place, editor = Place(tmp_path), Editor()
    async with place.connect(QUESTION, Answer(text="ok"), editor=editor) as (client, _):
        session = await client.new_session(str(place.project))
        done = await client.prompt(session.session_id, [text_block("paint it")])
    assert (done.stop_reason, editor.forms) == ("end_turn", [])
    assert "did not answer" in editor.of("tool_call_update")[-1].content[-1].content.text


async def test_a_prompt_that_waits_for_an_approval_can_be_cancelled(tmp_path):
    place, editor = Place(tmp_path, ASKING), Editor(waits=asyncio.Event())
    async with place.connect(*TOUCH, editor=editor) as (client, _):
        session = await client.new_session(str(place.project))
        prompt = asyncio.ensure_future(client.prompt(session.session_id, [text_block("go")]))
        await until(lambda: editor.asked or None)
        await client.cancel(session.session_id)
        assert (await prompt).stop_reason == "cancelled"
    assert not (place.project / "made").exists()


SCRIPT = (
    run_command("sleep 0.05; echo said", reasoning="thinking", text="I look."),
    Answer(text="All is well, and more."),
    *(Answer(text="Again."),) * 3,
)


async def count_updates(place: Place) -> int:
    async with place.connect(*SCRIPT) as (client, editor):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("go")])
        return len(editor.updates)


async def test_a_prompt_that_is_cancelled_at_any_update_answers_so_and_goes_on(tmp_path):
    place = Place(tmp_path)
    for number in range(1, await count_updates(place) + 1):
        heard = asyncio.Event()
        editor = Editor()

        def hear(_: object, editor: Editor = editor, heard: asyncio.Event = heard) -> None:
            if len(editor.updates) == number:  # noqa: B023 - it is heard in this round
                heard.set()

        editor.hears = hear
        async with place.connect(*SCRIPT, editor=editor) as (client, _):
            session = await client.new_session(str(place.project))
            prompt = asyncio.ensure_future(client.prompt(session.session_id, [text_block("go")]))
            waiting = asyncio.ensure_future(heard.wait())
            await asyncio.wait((prompt, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            await client.cancel(session.session_id)
            done = await prompt
            assert done.stop_reason in ("cancelled", "end_turn")
            if heard.is_set() and not any(
                "more." in each.content.text for each in editor.of("agent_message_chunk")
            ):
                assert done.stop_reason == "cancelled"
            begun = {each.tool_call_id for each in editor.of("tool_call")}
            ended = {
                each.tool_call_id
                for each in editor.of("tool_call_update")
                if each.status in ("completed", "failed")
            }
            assert begun == ended
            before = len(editor.of("agent_message_chunk"))
            again = await client.prompt(session.session_id, [text_block("again")])
            assert again.stop_reason == "end_turn"
            assert len(editor.of("agent_message_chunk")) > before


async def test_all_prompts_that_wait_are_cancelled(tmp_path):
    place = Place(tmp_path)
    async with place.connect(run_command("sleep 30"), Answer(text="ok")) as (client, editor):
        session = await client.new_session(str(place.project))
        prompts = [
            asyncio.ensure_future(client.prompt(session.session_id, [text_block(text)]))
            for text in ("one", "two")
        ]
        await until(lambda: editor.of("tool_call") or None)
        await client.cancel(session.session_id)
        assert [(await each).stop_reason for each in prompts] == ["cancelled"] * 2
