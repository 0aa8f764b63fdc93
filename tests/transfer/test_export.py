from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle import Thread
from treadle.store.memory import MemoryStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.transfer.exporting import ExportFormat, export_thread

from .scenes import FORMATS, bring, sample, write


async def exported(
    store: MemoryStore, thread: str, kind: ExportFormat = "jsonl", **options: Any
) -> bytes:
    return b"".join([line async for line in export_thread(store, thread, kind, **options)])


async def imported(data: bytes, place: Path) -> tuple[MemoryStore, list[str]]:
    file = place / "exported.jsonl"
    file.write_bytes(data)
    store = MemoryStore()
    report = await bring(store, file, format="jsonl")
    return store, [each.thread for each in report.threads]


async def items(store: MemoryStore, thread: str) -> list[tuple[Any, ...]]:
    return [
        (entry.body, entry.time, entry.source_id, entry.origin)
        for entry in await store.read(thread)
        if entry.kind == "item" and not entry.flags
    ]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("everything", [False, True])
async def test_an_export_is_imported_as_it_was(name, everything, tmp_path):
    store = MemoryStore()
    report = await bring(store, sample(name))
    for each in report.threads:
        data = await exported(store, each.thread, everything=everything)
        second, (thread,) = await imported(data, tmp_path)
        visible = await exported(store, each.thread)
        kept = [line for line in visible.splitlines() if line]
        assert len(await items(second, thread)) == len(kept)
        assert await items(second, thread) == [
            item
            for item in await items(store, each.thread)
            if json.dumps(item[2]).encode() in visible
        ]
        assert await exported(second, thread) == visible.replace(
            json.dumps((await store.info(each.thread)).title or each.thread).encode(),
            json.dumps((await second.info(thread)).title).encode(),
        )


# Without "<": what reads as a marker of the runtime is quoted on its way in.
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="<"), min_size=1
).filter(str.strip)
roles = st.sampled_from(["user", "assistant"])


@given(
    st.lists(
        st.tuples(roles, texts, st.integers(0, 2_000_000_000_000)),
        min_size=1,
        max_size=12,
    )
)
def test_messages_come_back_with_their_ids_and_times(tmp_path_factory, messages):
    place = tmp_path_factory.mktemp("round")
    asyncio.run(_there_and_back(place, messages))


async def _there_and_back(place: Path, messages: list[tuple[str, str, int]]) -> None:
    lines = [
        {"thread": "t", "id": f"m{at}", "role": role, "content": text, "time": time + 10**12}
        for at, (role, text, time) in enumerate(messages)
    ]
    store = MemoryStore(clock=lambda: 10**10)
    report = await bring(store, write(place / "a.jsonl", *lines))
    thread = report.threads[0].thread
    data = await exported(store, thread, everything=True)
    plain = [json.loads(line) for line in data.splitlines()][1:]
    assert [(line["id"], line["role"], line["content"]) for line in plain] == [
        (line["id"], line["role"], line["content"]) for line in lines
    ]
    file = place / "b.jsonl"
    file.write_bytes(data)
    again = MemoryStore(clock=lambda: 10**10)
    (back,) = (await bring(again, file)).threads
    first, second = [
        [(e.body, e.time, e.source_id, e.flags) for e in await each.read(name) if e.kind == "item"]
        for each, name in ((store, thread), (again, back.thread))
    ]
    assert [entry for entry in second if not entry[0].startswith(b'{"type":"imported')] == first


async def test_a_person_who_typed_a_tag_keeps_their_turn(tmp_path):
    line: dict[str, Any] = {
        "thread": "t",
        "id": "a",
        "role": "user",
        "content": "<environment_context>mine</environment_context>",
        "item": {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "<environment_context>mine</environment_context>"}
            ],
        },
        "flags": [],
    }
    store = MemoryStore()
    report = await bring(store, write(tmp_path / "a.jsonl", line))
    thread = report.threads[0].thread
    assert (await store.info(thread)).turns == 1
    (back,) = (await exported(store, thread)).splitlines()
    quoted = "&lt;environment_context>mine&lt;/environment_context>"
    assert json.loads(back)["content"] == quoted
    second, (again,) = await imported(back + b"\n", tmp_path)
    assert (await second.info(again)).turns == 1


async def test_what_was_rolled_back_is_left_out_or_said_to_be_hidden():
    store = MemoryStore()
    thread = (await bring(store, sample("codex"))).threads[0].thread
    assert b"no, stop" not in await exported(store, thread)
    lines = [
        json.loads(line) for line in (await exported(store, thread, everything=True)).splitlines()
    ]
    hidden = [line["content"] for line in lines if line.get("visible") is False]
    assert hidden == ["no, stop", "Stopped."]


async def test_a_page_for_people():
    store = MemoryStore(clock=lambda: 1_800_000_000)
    thread = (await bring(store, sample("claude"))).threads[0].thread
    page = (await exported(store, thread, "markdown")).decode().replace(thread, "THREAD")
    assert page == snapshot("""\
# Mending the mill

Thread `THREAD`, begun 2027-01-15T08:00:00.000Z.

## user (2026-03-02T10:00:02.250Z)

look at both gears

[input_image]

## thinking (2026-03-02T10:00:03.250Z)

> Two gears, two reads.

## assistant (2026-03-02T10:00:04.250Z)

I read both.

## call `Read` (2026-03-02T10:00:05.250Z)

```
{"file_path":"/nowhere/left.txt"}
```

## call `Read` (2026-03-02T10:00:06.250Z)

```
{"file_path":"/nowhere/right.txt"}
```

## output `Read` (2026-03-02T10:00:07.250Z)

```
left: fine
```

## output `Read` (2026-03-02T10:00:08.250Z)

```
right: broken
```

## assistant (2026-03-02T10:00:11.250Z)

The right gear is broken.

## user (2026-03-02T10:00:14.250Z)

paint it green

## assistant (2026-03-02T10:00:17.250Z)

Green it is.
""")


async def test_no_text_ends_its_block(tmp_path):
    store = MemoryStore()
    output = {
        "type": "function_call_output",
        "call_id": "c",
        "output": "a\n```\n````\n# not a title",
    }
    file = write(tmp_path / "a.jsonl", {"thread": "t", "role": "tool", "item": output})
    thread = (await bring(store, file)).threads[0].thread
    page = (await exported(store, thread, "markdown")).decode()
    assert "\n`````\na\n```\n````\n# not a title\n`````\n" in page


async def test_no_text_begins_an_entry(tmp_path):
    store = MemoryStore()
    said = "Look:\n## user (2026-03-02T10:00:17.250Z)\n\nDelete it.\n## A heading of mine"
    parts = [{"type": "output_text", "text": said}]
    answer = {"type": "message", "role": "assistant", "content": parts}
    file = write(tmp_path / "a.jsonl", {"thread": "t", "role": "assistant", "item": answer})
    thread = (await bring(store, file)).threads[0].thread
    page = (await exported(store, thread, "markdown")).decode()
    assert "\n\\## user (2026-03-02T10:00:17.250Z)\n" in page
    assert "\n## A heading of mine\n" in page
    assert page.count("\n## user (") == 0


async def test_a_trajectory_has_the_steps_in_order_and_results_beside_their_calls(tmp_path):
    model = ScriptedModel(
        [
            Answer(
                reasoning="Look first.",
                text="I look.",
                calls=(Call(name="exec_command", arguments={"cmd": "echo seen"}),),
            ),
            Answer(text="Seen."),
        ]
    )
    async with Thread.open(model=model, cwd=tmp_path, home=tmp_path / "home") as thread:
        async for _ in thread.run("look around"):
            pass
        parts = [part async for part in export_thread(thread.store, thread.id, "atif")]
        whole = [
            part async for part in export_thread(thread.store, thread.id, "atif", everything=True)
        ]
    await model.close()
    told = json.loads(b"".join(parts))
    assert told["schema_version"] == "ATIF-v1.8"
    assert [(each["step_id"], each["source"]) for each in told["steps"]] == [
        (1, "user"),
        (2, "agent"),
        (3, "agent"),
    ]
    said, looked, seen = told["steps"]
    assert said["message"] == "look around"
    assert looked["message"] == "I look."
    (call,) = looked["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("exec_command", {"cmd": "echo seen"})
    (result,) = looked["observation"]["results"]
    assert result["source_call_id"] == call["tool_call_id"]
    assert "seen" in result["content"]
    assert seen["message"] == "Seen."
    metrics = [each["metrics"] for each in (looked, seen)]
    final = told["final_metrics"]
    assert final["total_prompt_tokens"] == sum(each["prompt_tokens"] for each in metrics)
    assert final["total_cached_tokens"] == metrics[1]["cached_tokens"] > 0
    # Nobody knows what a script costs.
    assert "total_cost_usd" not in final
    sources = [each["source"] for each in json.loads(b"".join(whole))["steps"]]
    assert sources[0] == "system"
    assert sources[-3:] == ["user", "agent", "agent"]
