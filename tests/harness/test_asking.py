from __future__ import annotations

from typing import Any

import msgspec
import pytest

from treadle.testing.script import Answer
from treadle.tools.decorator import tool

from ..models.provider_turns import provider_thread, say
from .scenes import call, hear, last, open_thread, scripted

MARK = {"type": "ephemeral"}


@tool
async def look(at: int = 0) -> str:  # noqa: ARG001 - no two calls are the same
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


async def test_marks_stand_behind_what_stays_what_was_sent_last_and_the_newest_item(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/AGENTS.md").write_text("Be kind.\n")
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"), api="messages")
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        assert last(await hear(thread, "look")).text == "done"
        head = thread.view.head
    assert head is not None
    first, second = (marked(request.payload) for request in model.requests)
    assert [len(first), len(second)] == [3, 4]
    assert first[0] == second[0] == head.instructions
    assert first[1] == second[1]
    assert "</environment_context>" in first[1]
    assert first[2] == second[2] == "look"
    assert "seen" in second[3]


@pytest.mark.parametrize("api", ["messages", "responses", "chat"])
async def test_a_preview_is_what_is_sent_marks_included(tmp_path, api):
    answers = (Answer(text="one"), Answer(calls=(call("look"),)), Answer(text="two"))
    model = scripted(*answers, api=api)
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        for said in ("say", "look"):
            following, before = await thread.preview(said), len(model.requests)
            await hear(thread, said)
            assert following.body == model.requests[before].body
        assert bool(marked(model.requests[-1].payload)) == (api == "messages")


async def test_a_preview_has_what_the_user_ran_and_what_the_turn_has_of_its_own(tmp_path):
    model = scripted(Answer(text='{"sum": 3}'))
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    own: dict[str, Any] = {"schema": schema, "mode": "plan", "personality": "Terse."}
    own["context"] = {"build": "v17"}
    async with open_thread(tmp_path, model) as thread:
        await thread.run_command("echo from-the-user")
        following = await thread.preview("add", **own)
        await hear(thread, "add", **own)
    sent = model.requests[0].body
    assert following.body == sent
    for told in (b"from-the-user", b"json_schema", b"<collaboration_mode>", b"Terse.", b"v17"):
        assert told in sent


def marked_blocks(payload: dict[str, Any]) -> list[int]:
    """The positions of marked blocks among all blocks of the messages."""
    blocks = [block for message in payload["messages"] for block in message["content"]]
    return [at for at, block in enumerate(blocks) if "cache_control" in block]


async def test_a_step_of_many_blocks_stays_within_reach_of_what_was_cached(tmp_path):
    many = tuple(Answer(calls=tuple(call("look", at=at) for at in range(15))) for _ in range(2))
    model = scripted(*many, Answer(text="done"), api="messages")
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "look")
    first, second, third = (marked_blocks(request.payload) for request in model.requests)
    # A provider looks back twenty blocks from a mark; here it need not look back at all.
    assert second[-1] - first[-1] == third[-1] - second[-1] == 30
    assert first[-1] in second
    assert second[-1] in third


async def test_marks_last_as_long_as_the_settings_say(tmp_path):
    hour = {"type": "ephemeral", "ttl": "1h"}
    async with provider_thread(
        tmp_path,
        "anthropic:claude-opus-5",
        Answer(text="done"),
        params={"anthropic": {"cache_ttl": "1h"}},
    ) as (thread, server):
        await say(thread, "hello")
        payload = server.requests[0].payload
    assert payload["system"][-1]["cache_control"] == hour
    assert payload["messages"][-1]["content"][-1]["cache_control"] == hour


async def test_openai_is_told_where_to_cache_if_the_settings_say_so(tmp_path):
    params = {"openai": {"cache_breakpoints": True, "cache_ttl": "30m"}}
    async with provider_thread(
        tmp_path, "openai:gpt-5.6-sol", Answer(text="done"), params=params
    ) as (thread, server):
        await say(thread, "hello")
        payload = server.requests[0].payload
        rows = await thread.index.rows(thread.id)
    parts = [part for item in payload["input"] for part in item["content"]]
    marks = [part.get("prompt_cache_breakpoint") for part in parts]
    assert marks[-1] == {"mode": "explicit"}
    assert marks.count({"mode": "explicit"}) == 2
    assert payload["prompt_cache_options"] == {"ttl": "30m"}
    mark = b',"prompt_cache_breakpoint":{"mode":"explicit"}'
    assert rows[0].size == len(server.requests[0].body.replace(mark, b""))


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
