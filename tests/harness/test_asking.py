from __future__ import annotations

import msgspec

from treadle.testing.script import Answer
from treadle.tools.decorator import tool

from .scenes import call, hear, last, open_thread, scripted

MARK = {"type": "ephemeral"}


@tool
async def look() -> str:
    """Looks."""
    return "seen"


def marked(payload: dict[str, object]) -> list[str]:
    """The texts of the blocks behind which a cache ends, in order."""
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, dict):
            if value.get("cache_control") == MARK:
                found.append(str(value.get("text") or value.get("content") or value.get("type")))
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    for name in ("tools", "system", "messages"):
        walk(payload.get(name))
    return found


async def test_marks_stand_behind_the_instructions_the_first_context_and_the_newest_item(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/AGENTS.md").write_text("Be kind.\n")
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"), api="messages")
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        assert last(await hear(thread, "look")).text == "done"
        head = thread.view.head
    assert head is not None
    first, second = (marked(request.payload) for request in model.requests)
    assert [len(first), len(second)] == [3, 3]
    assert first[0] == second[0] == head.instructions
    assert first[1] == second[1]
    assert "</environment_context>" in first[1]
    assert (first[2], "seen" in second[2]) == ("look", True)


async def test_marks_are_no_part_of_what_the_ledger_compares(tmp_path):
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"), api="messages")
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "look")
        rows = await thread.index.rows(thread.id)
    mark = b',"cache_control":' + msgspec.json.encode(MARK)
    sizes = [len(request.body.replace(mark, b"")) for request in model.requests]
    assert [row.size for row in rows] == sizes
    assert [row.unexplained for row in rows] == [False, False]


async def test_other_formats_have_no_marks(tmp_path):
    for api in ("responses", "chat"):
        model = scripted(Answer(text="done"), api=api)
        async with open_thread(tmp_path, model) as thread:
            await hear(thread, "look")
        assert b"cache_control" not in model.requests[0].body
