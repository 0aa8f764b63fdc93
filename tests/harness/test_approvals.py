from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from treadle.context.head import Choices
from treadle.core.errors import NotFound
from treadle.harness.events import ApprovalRequested, Event, QuestionsAsked, ToolFinished
from treadle.prompt.input import LocalImage
from treadle.sandbox.approvals import Decision, ForPrefix, ForThread, No, NoAndStop, Once
from treadle.testing.script import Answer
from treadle.tools.contract import AnswerOption, UserQuestion

from .scenes import call, calls_answered_once, hear, last, log, of, open_thread, scripted

TOUCH = call("exec_command", cmd="touch made", login=False)
ASKING: dict[str, Any] = {"tools": None, "sandbox": "workspace-write", "approval": "untrusted"}


async def answered(thread, decisions: list[Decision], *said: str) -> list[Event]:
    """A turn in which approvals are answered one after the other."""
    left = list(decisions)

    def decide(event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            thread.answer(event.id, left.pop(0))

    events = await hear(thread, *said, at=decide)
    assert left == []
    return events


@pytest.mark.parametrize(
    ("decision", "again"),
    [(Once(), 2), (ForThread(), 1), (ForPrefix(("touch",)), 1)],
    ids=["once", "thread", "prefix"],
)
async def test_a_yes_holds_for_as_long_as_it_says(tmp_path, decision, again):
    model = scripted(Answer(calls=(TOUCH,)), Answer(calls=(TOUCH,)), Answer(text="done"))
    async with open_thread(tmp_path, model, **ASKING) as thread:
        events = await answered(thread, [decision] * again, "go")
        (first, *_) = of(events, ApprovalRequested)
        assert first.call.argv[-1] == "touch made"
        assert [e.success for e in of(events, ToolFinished)] == [True, True]
        assert last(events).status == "completed"
    assert (tmp_path / "project/made").exists()
    assert (tmp_path / "home/rules.json").exists() == isinstance(decision, ForPrefix)


async def test_a_no_is_told_to_the_model_with_its_reason(tmp_path):
    model = scripted(Answer(calls=(TOUCH,)), Answer(when="use a copy", text="I will."))
    async with open_thread(tmp_path, model, **ASKING) as thread:
        events = await answered(thread, [No("use a copy")], "go")
    assert last(events).text == "I will."
    assert not (tmp_path / "project/made").exists()


async def test_a_no_and_stop_ends_the_turn_with_every_call_answered(tmp_path):
    model = scripted(Answer(calls=(TOUCH,)), Answer(text="never asked"))
    async with open_thread(tmp_path, model, **ASKING) as thread:
        events = await answered(thread, [NoAndStop()], "go")
        assert last(events).status == "interrupted"
        assert await calls_answered_once(thread)
        assert (await thread.store.turn(thread.id, 1)).state == "aborted"
        assert b"<turn_aborted>" in thread.view.rows[-1].body
        assert len(model.requests) == 1


async def test_two_calls_that_ask_at_once_get_each_their_own_answer(tmp_path):
    calls = tuple(call("exec_command", cmd=f"touch {name}", login=False) for name in "ab")
    model = scripted(Answer(calls=calls), Answer(text="done"))
    async with open_thread(tmp_path, model, **ASKING) as thread:
        asked: dict[str, str] = {}

        def decide(event: Event) -> None:
            if isinstance(event, ApprovalRequested):
                asked[event.call.argv[-1]] = event.id
                if len(asked) == 2:
                    thread.answer(asked["touch b"], Once())
                    thread.answer(asked["touch a"], No())

        await hear(thread, "go", at=decide)
        assert await calls_answered_once(thread)
        assert await thread.store.outbox(thread=thread.id) == []
        assert "rejected by user" in (await log(thread))[3]
    project = tmp_path / "project"
    assert [(project / name).exists() for name in "ab"] == [False, True]


async def test_a_question_is_answered_once(tmp_path):
    model = scripted(Answer(calls=(TOUCH,)), Answer(text="done"))
    async with open_thread(tmp_path, model, **ASKING) as thread:
        refused = []

        def twice(event: Event) -> None:
            if isinstance(event, ApprovalRequested):
                thread.answer(event.id, Once())
                with pytest.raises(NotFound, match="answered or withdrawn"):
                    thread.answer(event.id, Once())
                refused.append(event.id)

        await hear(thread, "go", at=twice)
        assert len(refused) == 1
        assert await thread.store.outbox(thread=thread.id) == []


CHILD = """
import asyncio, sys
from pathlib import Path
from treadle import Rights, Thread
from treadle.harness.events import ApprovalRequested
from treadle.testing.script import Answer, Call
from treadle.testing.scripted import ScriptedModel

async def main(place):
    call = Call(name="exec_command", arguments={"cmd": "touch made", "login": False})
    model = ScriptedModel([Answer(calls=(call,))])
    async with Thread.open(model=model, home=place / "home", cwd=place / "project",
                           rights=Rights(approval="untrusted")) as thread:
        async for event in thread.run("go"):
            if isinstance(event, ApprovalRequested):
                print(thread.id, flush=True)
                await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


def killed_while_it_asks(place: Path) -> str:
    for name in ("home", "project"):
        (place / name).mkdir()
    command = [sys.executable, "-c", CHILD, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        os.kill(child.pid, signal.SIGKILL)
    return name


WITHDRAWN = "Withdrawn: the run ended before the user answered; what was asked for was not done."


async def test_after_a_restart_an_unanswered_approval_was_withdrawn(tmp_path):
    name = await asyncio.to_thread(killed_while_it_asks, tmp_path)
    model = scripted(Answer(when="Withdrawn", text="Shall I ask again?"))
    async with open_thread(tmp_path, model, thread=name, **ASKING) as thread:
        events = await hear(thread, "well?")
        assert await log(thread) == [
            "user: go",
            "call exec_command",
            f"output {WITHDRAWN}",
            "user: well?",
            "assistant: Shall I ask again?",
        ]
        assert await thread.store.outbox(thread=name) == []
    assert last(events).status == "completed"
    assert not (tmp_path / "project/made").exists()


async def test_questions_go_to_the_user_and_answers_back(tmp_path):
    asked = {
        "questions": [
            {
                "id": "colour",
                "header": "Colour",
                "question": "Which?",
                "options": [
                    {"label": "Red", "description": "warm"},
                    {"label": "Blue", "description": "cold"},
                ],
            }
        ]
    }
    model = scripted(Answer(calls=(call("request_user_input", **asked),)), Answer(text="Blue."))
    async with open_thread(tmp_path, model, tools=None) as thread:
        heard: list[tuple[UserQuestion, ...]] = []

        def reply(event: Event) -> None:
            if isinstance(event, QuestionsAsked):
                heard.append(event.questions)
                thread.answer(event.id, {"colour": ("Blue",)})

        await hear(thread, "paint it", at=reply)
        assert (await log(thread))[2] == 'output {"answers":{"colour":{"answers":["Blue"]}}}'
    choices = (AnswerOption("Red", "warm"), AnswerOption("Blue", "cold"))
    question = UserQuestion(id="colour", header="Colour", question="Which?", options=choices)
    assert heard == [(question,)]


async def test_a_schema_goes_with_the_request_and_leaves_with_the_turn(tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    model = scripted(Answer(text='{"n":1}'), Answer(text="free again"))
    async with open_thread(tmp_path, model) as thread:
        events = await hear(thread, "a number", schema=Raw(msgspec.json.encode(schema)))
        assert msgspec.json.decode(last(events).text) == {"n": 1}
        await hear(thread, "and now")
        rows = await thread.index.rows(thread.id)
    first, second = (request.payload for request in model.requests)
    assert first["text"]["format"]["schema"] == schema
    assert "format" not in second.get("text", {})
    assert [row.reason for row in rows] == ["start", "params"]


async def test_a_schema_that_was_chosen_for_the_thread_holds_for_every_turn(tmp_path):
    choices = Choices(output_schema=Raw(b'{"type":"object","title":"usual"}'))
    model = scripted(Answer(text="{}"), Answer(text="{}"), Answer(text="{}"))
    async with open_thread(tmp_path, model, choices=choices) as thread:
        await hear(thread, "one")
        await hear(thread, "two", schema=Raw(b'{"type":"object","title":"once"}'))
        await hear(thread, "three")
    titles = [r.payload["text"]["format"]["schema"]["title"] for r in model.requests]
    assert titles == ["usual", "once", "usual"]


async def test_images_are_sent_with_what_was_said(tmp_path):
    pixel = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
    picture = tmp_path / "pixel.png"
    picture.write_bytes(pixel)
    model = scripted(Answer(text="a pixel"))
    async with open_thread(tmp_path, model, facts="images = true") as thread:
        assert last(await hear(thread, "what is this?", LocalImage(picture))).text == "a pixel"
    parts = model.requests[0].payload["input"][-1]["content"]
    assert [part["type"] for part in parts].count("input_image") == 1
    (image,) = [part for part in parts if part["type"] == "input_image"]
    assert image["image_url"].startswith("data:image/png;base64,")
