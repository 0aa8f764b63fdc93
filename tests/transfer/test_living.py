from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.engines.lossless.scenes import Speaker, keeping, reached_entries, summaries, talk, words
from treadle import Thread
from treadle.core.entries import Origin
from treadle.harness.events import TurnCompleted
from treadle.store import SqliteStore
from treadle.store.contract import Search
from treadle.store.index import MemoryIndex
from treadle.store.memory import MemoryStore
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel

from .scenes import bring, describe_thread, sample, write


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@asynccontextmanager
async def closed(model: ScriptedModel) -> AsyncIterator[ScriptedModel]:
    try:
        yield model
    finally:
        await model.close()


def outline(item: dict[str, Any]) -> str:
    """An item of a request in a few words."""
    texts = [part.get("text", "") for part in item.get("content", [])]
    given = item.get("arguments") or item.get("input") or item.get("output") or "".join(texts)
    return f"{item.get('role') or item['type']} {given[:40]}".replace("\n", " ").rstrip()


async def resumed(store: MemoryStore, thread: str, place: Path, *answers: Answer) -> ScriptedModel:
    """A model that was asked once more in an imported thread."""
    async with (
        closed(ScriptedModel(answers)) as model,
        Thread.open(thread, model=model, store=store, cwd=place, home=place, tools=()) as opened,
    ):
        events = [event async for event in opened.run("and now?")]
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].status == "completed", events[-1].error
    return model


@pytest.mark.parametrize("name", ["codex", "claude", "openclaw"])
async def test_nothing_strange_reaches_a_model(store, tmp_path, name):
    report = await bring(store, sample(name))
    model = await resumed(store, report.threads[0].thread, tmp_path, Answer(text="Now this."))
    (request,) = model.requests
    types = {item["type"] for item in request.payload["input"]}
    allowed = {"message", "function_call", "function_call_output"}
    assert types <= {*allowed, "custom_tool_call", "custom_tool_call_output"}
    assert "imported_record" not in json.dumps(request.payload)
    assert "sealed" not in json.dumps(request.payload)


async def test_parts_and_fields_that_nobody_knows_go_nowhere(store, tmp_path):
    item = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "hear", "tint": 3}, {"type": "input_smell"}],
        "mood": "good",
    }
    line = {"timestamp": "2026-03-01T09:00:00Z", "type": "response_item", "payload": item}
    report = await bring(store, write(tmp_path / "a.jsonl", line))
    (_, entry) = await store.read(report.threads[0].thread)
    assert json.loads(entry.body) == item
    model = await resumed(store, report.threads[0].thread, tmp_path, Answer(text="Now this."))
    sent = [item for item in model.requests[0].payload["input"] if "hear" in json.dumps(item)]
    plain = [{"type": "input_text", "text": "hear"}]
    assert sent == [{"type": "message", "role": "user", "content": plain}]


async def test_a_rollout_is_resumed_like_any_thread(store, tmp_path):
    report = await bring(store, sample("codex"))
    model = await resumed(store, report.threads[0].thread, tmp_path, Answer(text="Now this."))
    said = [outline(item) for item in model.requests[0].payload["input"]]
    assert [line for line in said if not line.startswith(("developer <", "user #"))] == snapshot(
        [
            "user <imported_context> This stood in an impo",
            "user <imported_context> This stood in an impo",
            "user why does the mill stop?",
            'function_call {"cmd":"cat gears.txt"}',
            "function_call_output three gears, one broken",
            "custom_tool_call *** Begin Patch *** End Patch",
            "custom_tool_call_output Done!",
            "assistant One gear was broken; I mended it.",
            "user grind the blue corn",
            'function_call {"cmd":"grind"}',
            "function_call_output aborted",
            "user is it running?",
            "assistant It runs.",
            "user <environment_context>   <cwd>/tmp/pytest",
            "user and now?",
        ]
    )


async def test_what_a_file_calls_sealed_has_no_home(store):
    report = await bring(store, sample("claude"))
    entries = await store.read(report.threads[0].thread)
    made = {entry.origin for entry in entries if entry.origin is not None}
    assert made == {
        Origin(
            provider="anthropic",
            api="messages",
            model="claude-opus-4-6",
            account="unknown",
            harness="claude-code",
        )
    }


async def test_what_codex_encrypted_has_no_home(store):
    report = await bring(store, sample("codex"))
    entries = await store.read(report.threads[0].thread)
    made = {entry.origin for entry in entries if entry.origin is not None}
    assert made == {
        Origin(
            provider="openai",
            api="responses",
            model="gpt-5.5",
            account="unknown",
            harness="codex",
        )
    }


async def test_what_was_imported_is_found_by_its_words_and_context_is_not(store):
    await bring(store, sample("claude"), sample("codex"))
    index = MemoryIndex(store)
    found = {
        words: [hit.snippet for hit in await index.search(words)]
        for words in ("mended", "brief", "riddle", "corn")
    }
    await index.close()
    assert found == {
        "mended": ["One gear was broken; I mended it."],
        "brief": [],
        "riddle": [],
        "corn": ["grind the blue corn"],
    }


async def test_a_past_that_fills_the_window_is_compacted_before_the_first_turn(store, tmp_path):
    lines = [
        {"thread": "t", "role": role, "content": f"{at} " + "word " * 400}
        for at in range(40)
        for role in ("user", "assistant")
    ]
    report = await bring(store, write(tmp_path / "a.jsonl", *lines))
    (tmp_path / "models.toml").write_text("[models.script]\ncontext_window = 20000\n")
    answers = [Answer(text="A short past."), Answer(text="Now this.")]
    model = await resumed(store, report.threads[0].thread, tmp_path, *answers)
    assert len(model.requests) == 2
    assert "A short past." in json.dumps(model.requests[1].payload)


async def test_turns_can_be_rolled_back_and_compacted(store, tmp_path):
    thread = (await bring(store, sample("claude"))).threads[0].thread
    async with (
        closed(ScriptedModel([Answer(text="A summary of the mill.")])) as model,
        Thread.open(
            thread, model=model, store=store, cwd=tmp_path, home=tmp_path, tools=()
        ) as opened,
    ):
        await opened.rollback(1)
        await opened.compact()
        assert "paint it green" not in str(opened.view.rows)
        assert "A summary of the mill." in str(opened.view.rows)
    assert "rollback to 12" in await describe_thread(store, thread)


async def test_entries_happened_when_the_file_says(store):
    for name, first, last in (
        ("codex", "2026-03-01T09:00:02.500", "2026-03-01T09:00:25.500"),
        ("claude", "2026-03-02T10:00:01.250", "2026-03-02T10:00:17.250"),
        ("openclaw", "2026-03-03T11:00:02.000", "2026-03-03T11:00:15.000"),
    ):
        thread = (await bring(store, sample(name))).threads[0].thread
        times = [entry.time for entry in await store.read(thread)]
        assert times == sorted(times)
        assert [_iso(times[1]), _iso(times[-1])] == [first, last]
        turns = await store.turns(thread)
        assert {turn.state for turn in turns} == {"completed"}
        assert _iso(turns[0].admitted) == first


def _iso(time: int) -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(time / 1000, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds")


async def test_what_a_tool_said_in_plain_lines_is_found_and_not_sent(store, tmp_path):
    said = {"thread": "ops", "id": "o1", "role": "tool", "content": "disk full on kestrel"}
    file = write(tmp_path / "ops.jsonl", {**said, "id": "u1", "role": "user"}, said)
    thread = (await bring(store, file)).threads[0].thread
    index = MemoryIndex(store)
    hits = await index.search(Search("kestrel", roles=("tool",)))
    assert [(hit.source_id, hit.snippet) for hit in hits] == [("o1", "disk full on kestrel")]
    model = await resumed(store, thread, tmp_path, Answer(text="Now this."))
    assert model.requests[0].body.count(b"disk full on kestrel") == 1


@pytest.mark.parametrize(("name", "title"), [(42, "42"), (0, "0"), (None, "chat"), ("", "chat")])
async def test_a_thread_may_be_a_number_or_nobody(store, tmp_path, name, title):
    file = write(tmp_path / "chat.jsonl", {"thread": name, "role": "user", "content": "hello"})
    (brought,) = (await bring(store, file)).threads
    assert (brought.title, brought.added) == (title, 1)
    assert (await describe_thread(store, brought.thread)).endswith("user hello")


async def test_imported_outputs_without_calls_are_compacted_like_anything_else(tmp_path):
    said = [
        {"thread": "ops", "id": f"{role}{n}", "role": role, "content": f"{n} {words(n, 120)}"}
        for n in range(12)
        for role in ("user", "assistant", "tool")
    ]
    async with await SqliteStore.open(tmp_path / "home") as store:
        thread = (await bring(store, write(tmp_path / "ops.jsonl", *said))).threads[0].thread
    async with keeping(tmp_path, Speaker(), thread) as (opened, engine):
        await talk(opened, "Go on.")
        assert summaries(opened)
        entries = [entry for entry in await opened.store.read(thread) if entry.kind == "item"]
        brought = [entry.seq for entry in entries if entry.source_id]
        assert (await reached_entries(opened, engine.library))[: len(said)] == brought


async def test_an_imported_past_is_summarised_by_the_model_where_there_is_time(tmp_path):
    said = [
        {"thread": "ops", "id": f"{role}{n}", "role": role, "content": f"{n} {words(n, 110)}"}
        for n in range(18)
        for role in ("user", "assistant")
    ]
    async with await SqliteStore.open(tmp_path / "home") as store:
        thread = (await bring(store, write(tmp_path / "ops.jsonl", *said))).threads[0].thread
    async with keeping(tmp_path, Speaker(), thread, window=14_000) as (opened, engine):
        await talk(opened, "Go on.")
        nodes = await engine.library.nodes_of_thread(thread)
        assert nodes
        assert not any(node.degraded for node in nodes)
