from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.scenes import hear, last, of, open_thread, scripted
from treadle.harness.events import NoticeRaised, TextDelta
from treadle.testing.script import Answer


def streamed(*pieces: str, text: str) -> Answer:
    """An answer that says `text` after having streamed other pieces."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    events: list[dict[str, Any]] = [
        *({"type": "response.output_text.delta", "delta": piece} for piece in pieces),
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]
    lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    return Answer(body="".join(lines), headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize(
    ("pieces", "heard"),
    [
        (("all ", "is well"), "all is well"),
        ((), "all is well"),
        (("all ",), "all is well"),
        (("all is well \n",), "all is well \n"),
    ],
)
async def test_users_hear_what_the_log_holds(tmp_path: Path, pieces: tuple[str, ...], heard: str):
    async with open_thread(tmp_path, scripted(streamed(*pieces, text="all is well"))) as thread:
        events = await hear(thread, "how is it?")
    assert "".join(event.text for event in of(events, TextDelta)) == heard
    assert last(events).text == "all is well"
    assert of(events, NoticeRaised) == []


async def test_text_that_no_answer_holds_is_told_as_such(tmp_path: Path):
    model = scripted(streamed("your disk was wiped", text="all is well"))
    async with open_thread(tmp_path, model) as thread:
        events = await hear(thread, "how is it?")
    (notice,) = of(events, NoticeRaised)
    assert "streamed other text than its answer has" in notice.text
    assert "".join(event.text for event in of(events, TextDelta)).endswith("\nall is well")
    assert last(events).text == "all is well"
