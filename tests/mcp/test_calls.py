"""What a call of a server's tool means to the turn: its wait, its end, its questions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from tests.pictures import data_url, picture
from treadle.core.redact import add_secrets
from treadle.harness.events import QuestionsAsked, ToolStarted
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions
from treadle.tools.contract import Answers

from .scenes import OwnServer, outputs, servers_of, thread_with


def calling(tool: str, **arguments: object):
    """A model that makes one call, then ends."""
    made = call(f"mcp__echo__{tool}", **arguments)
    return scripted(Answer(calls=(made,)), Answer(text="done"))


async def test_an_interrupt_is_told_to_the_server_and_the_thread_goes_on(tmp_path):
    server = OwnServer(tmp_path, tools=["hang", "echo"])
    first = Answer(calls=(call("mcp__echo__hang"),))
    second = Answer(calls=(call("mcp__echo__echo", text="still here"),))
    model = scripted(first, second, Answer(text="done"))
    async with thread_with(tmp_path, model, server) as thread:

        def stop(event: object) -> None:
            if isinstance(event, ToolStarted):
                thread.interrupt()

        assert last(await hear(thread, "go", at=stop)).status == "interrupted"
        await hear(thread, "again")
        aborted, said = outputs(model.requests[-1].body)
    assert "aborted by user" in aborted
    assert said == "still here"
    told = json.loads((tmp_path / "echo.cancelled").read_text())
    assert told["requestId"] is not None


async def test_a_call_waits_for_its_server_and_the_first_request_does_not(tmp_path):
    server = OwnServer(tmp_path, tools=["echo"])
    async with servers_of(tmp_path, server) as servers:
        await servers.prepare()
    server.change(start_seconds=1)
    model = calling("echo", text="worth the wait")
    async with servers_of(tmp_path, server) as servers:
        tools = ToolOptions(tools=(), mcp=servers)
        async with open_thread(tmp_path, model, tools=tools) as thread:
            states = []

            def look(event: object) -> None:
                if isinstance(event, ToolStarted):
                    states.append(servers.connection("echo").state)

            await hear(thread, "go", at=look)
    assert states == ["starting"]
    assert outputs(model.requests[-1].body) == ["worth the wait"]


async def test_images_reach_the_model_and_one_that_is_none_is_a_sentence(tmp_path):
    server = OwnServer(tmp_path, tools=["image"])
    images = [base64.b64encode(data).decode() for data in (picture(), b"no image")]
    calls = [Answer(calls=(call("mcp__echo__image", text=image),)) for image in images]
    model = scripted(*calls, Answer(text="done"))
    async with thread_with(tmp_path, model, server, facts="images = true") as thread:
        await hear(thread, "go")
    items = json.loads(model.requests[-1].body)["input"]
    (shown,), (said,) = (each["output"] for each in items if "output" in each)
    assert (shown["type"], shown["image_url"]) == ("input_image", data_url(picture()))
    assert said["type"] == "input_text"
    assert said["text"].startswith("An image of the result")


async def test_known_secrets_in_results_reach_neither_model_nor_log(tmp_path):
    add_secrets("planted-in-a-result-0123456789")
    server = OwnServer(tmp_path, tools=["echo", "structured"])
    server.change(structured={"key": "planted-in-a-result-0123456789"})
    plain = call("mcp__echo__echo", text="the key is planted-in-a-result-0123456789")
    model = scripted(
        Answer(calls=(plain,)), Answer(calls=(call("mcp__echo__structured"),)), Answer(text="x")
    )
    async with thread_with(tmp_path, model, server) as thread:
        await hear(thread, "go")
        entries = await thread.store.read(thread.id)
    assert [said.count("…") for said in outputs(model.requests[-1].body)] == [1, 1]
    results = [each.item for each in entries if each.kind == "item"]
    assert not any("planted" in str(item) for item in results if "Output" in type(item).__name__)


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 1, "maximum": 99},
        "kind": {"type": "string", "oneOf": [{"const": "c", "title": "Cat"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}},
        "sure": {"type": "boolean"},
        "town": {"type": "string", "default": "Rye"},
        "day": {"type": "string", "format": "date"},
    },
    "required": ["name"],
}
RIGHT = {"name": ("Ann",), "age": ("7",), "kind": ("c",), "days": ("mon, tue",), "sure": ("no",)}
FILLED = {"name": "Ann", "age": 7, "kind": "c", "days": ["tue"], "sure": False, "town": "Rye"}


async def fill(place, *answers: Answers) -> tuple[dict[str, Any], list[list[str]]]:
    """What a server gets when its form is answered like this; and which fields were asked for."""
    asked = {"mode": "form", "message": "Introduce yourself", "requestedSchema": FORM}
    server = OwnServer(place, tools=["elicit"], elicit=asked)
    model, given = calling("elicit"), iter(answers)
    async with thread_with(place, model, server) as thread:

        def reply(event: object) -> None:
            if isinstance(event, QuestionsAsked):
                thread.answer(event.id, next(given))

        events = await hear(thread, "go", at=reply)
        (said,) = outputs(model.requests[-1].body)
    questions = of(events, QuestionsAsked)
    return json.loads(said), [[each.id for each in one.questions] for one in questions]


async def test_what_is_no_answer_to_a_form_is_asked_for_again_alone(tmp_path):
    wrong: Answers = {**RIGHT, "age": ("seven",), "kind": ("dog",), "days": ("mon, wed",)}
    said, asked = await fill(tmp_path, wrong, {"age": ("7",), "kind": ("c",), "days": ("tue",)})
    assert asked == [[*RIGHT, "town", "day"], ["age", "kind", "days"]]
    assert said == {"action": "accept", "content": FILLED}


async def test_an_answer_is_within_its_bounds_and_may_be_a_name_a_number_or_left_out(tmp_path):
    given = {**RIGHT, "kind": ("cat",), "sure": ("-",), "days": ("1", "tue")}
    first: Answers = {**given, "age": ("100",), "day": ("2026-02-30",)}
    again: Answers = {"age": ("99",), "day": ("-",)}
    said, asked = await fill(tmp_path, first, again)
    assert asked[1:] == [["age", "day"]]
    content = {"name": "Ann", "age": 99, "kind": "c", "days": ["mon", "tue"], "town": "Rye"}
    assert said == {"action": "accept", "content": content}


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ((None,), {"action": "decline"}),
        (({"name": ("Ann",)},), {"action": "accept", "content": {"name": "Ann", "town": "Rye"}}),
        (({"age": ("7",)}, {}, {}), {"action": "cancel"}),
    ],
)
async def test_a_form_is_accepted_only_when_it_has_what_it_needs(tmp_path, answers, outcome):
    said, _ = await fill(tmp_path, *answers)
    assert said == outcome
