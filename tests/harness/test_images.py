from __future__ import annotations

import json
from typing import Any

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from tests.pictures import data_url, picture
from treadle.context.rebuild import rebuild_ledger
from treadle.core.entries import Epoch, Reason
from treadle.core.items import InputImage, InputText
from treadle.harness.events import NoticeRaised
from treadle.prompt import Image
from treadle.prompt.image_notes import refused_image
from treadle.testing.script import Answer, ScriptedError
from treadle.thread.thread import Thread
from treadle.tools.contract import ToolResult
from treadle.tools.decorator import tool

SEES = 'provider = "scripted"\nlike = "gpt-5.5"\nimages = true'
REFUSED = Answer(
    error=ScriptedError(
        status=400,
        code="invalid_value",
        message="The image data you provided does not represent a valid image.",
    )
)
GOOD, BAD = data_url(picture()), data_url(picture(width=5))
LEFT_OUT = refused_image().text


def shown(request: Any) -> list[str]:
    """The images of a request, and the sentences that stand for some."""
    parts = [
        part
        for item in json.loads(request.body)["input"]
        for part in item.get("content") or item.get("output") or ()
        if isinstance(part, dict)
    ]
    return [
        part.get("image_url") or part["text"]
        for part in parts
        if part["type"] == "input_image" or "image" in part["text"].lower()[:40]
    ]


async def reasons(thread: Thread) -> list[Reason]:
    entries = await thread.store.read(thread.id)
    controls = [entry.control for entry in entries if entry.kind == "epoch"]
    return [control.reason for control in controls if isinstance(control, Epoch)]


async def test_a_refused_image_is_left_out_and_the_turn_goes_on(tmp_path):
    model = scripted(Answer(text="nice"), REFUSED, Answer(text="fine", times=0))
    async with open_thread(tmp_path, model, facts=SEES) as thread:
        await hear(thread, "look", Image(GOOD))
        heard = await hear(thread, "and here", Image(BAD))
        assert (last(heard).status, last(heard).text) == ("completed", "fine")
        assert "the provider refused an image" in of(heard, NoticeRaised)[0].text
        again = await hear(thread, "go on")
        assert last(again).status == "completed"
        assert of(again, NoticeRaised) == []
        assert [shown(request) for request in model.requests] == [
            [GOOD],
            [GOOD, BAD],
            [GOOD, LEFT_OUT],
            [GOOD, LEFT_OUT],
        ]
        assert await reasons(thread) == [Reason.START, Reason.IMAGES]
        name = thread.id
    model = scripted(Answer(text="still fine", times=0))
    async with open_thread(tmp_path, model, thread=name, facts=SEES) as thread:
        assert last(await hear(thread, "later")).text == "still fine"
        assert shown(model.requests[0]) == [GOOD, LEFT_OUT]
        rebuilt = await rebuild_ledger(thread.store, thread.index, thread.id, thread.registry)
        assert rebuilt.differing == ()


async def test_an_image_of_a_tool_that_nobody_can_read_becomes_a_sentence(tmp_path):
    half = data_url(picture()[:-6])
    wrong = GOOD.replace("image/png", "image/jpeg")

    @tool
    async def draw() -> ToolResult:
        """Draws."""
        return ToolResult((InputText(text="here"), InputImage(half), InputImage(wrong)))

    model = scripted(Answer(calls=(call("draw"),)), Answer(text="fine"))
    async with open_thread(tmp_path, model, facts=SEES, tools=[draw]) as thread:
        assert last(await hear(thread, "draw")).status == "completed"
    assert shown(model.requests[1]) == [
        "An image of the result could not be read: it is cut short; its end is missing",
        GOOD,
    ]


async def test_a_provider_that_refuses_more_than_images_ends_the_turn(tmp_path):
    model = scripted(
        Answer(
            error=ScriptedError(status=400, code="invalid_value", message="image no, tools no"),
            times=0,
        )
    )
    async with open_thread(tmp_path, model, facts=SEES) as thread:
        assert last(await hear(thread, "look", Image(GOOD))).status == "failed"
    assert [shown(request) for request in model.requests] == [[GOOD], [LEFT_OUT]]
