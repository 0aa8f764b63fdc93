from __future__ import annotations

from typing import Any

import pytest

from treadle.store.memory import MemoryStore

from .scenes import bring, describe_thread, states, write

SUMMARY = "This session is being continued from a previous conversation."


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def said(name: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    kind = "assistant" if name.startswith("a") else "user"
    content = [{"type": "text", "text": text}] if kind == "assistant" else text
    return {
        "type": kind,
        "uuid": name,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": "2026-03-02T10:00:00Z",
        "message": {"role": kind, "content": content},
        **more,
    }


BEFORE = [said("u1", None, "mend the mill"), said("a1", "u1", "Mended.")]
AFTER = [
    {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "a1",
        "sessionId": "s",
    },
    said("u2", "b1", SUMMARY, isCompactSummary=True),
    said("u3", "u2", "is it running?"),
    said("a3", "u3", "It runs."),
]


async def test_a_summary_of_what_is_there_is_kept_and_not_told(store, tmp_path):
    report = await bring(store, write(tmp_path / "a.jsonl", *BEFORE, *AFTER))
    assert states(report) == [("claude:s", "new", 6, 0)]
    lines = (await describe_thread(store, report.threads[0].thread)).splitlines()[1:]
    kept = [line for line in lines if SUMMARY in line or "imported_record" in line]
    assert [line for line in lines if line not in kept] == [
        "1.0 -   user mend the mill",
        "1.1 -   assistant Mended.",
        "2.0 -   notice Conversation compacted",
        "2.0 -   user is it running?",
        "2.1 -   assistant It runs.",
    ]
    assert [line.split()[1:3] for line in kept] == [["vh", "imported_record"]]


async def test_a_summary_of_what_is_gone_is_told_as_context(store, tmp_path):
    report = await bring(store, write(tmp_path / "a.jsonl", *AFTER[1:]))
    assert f"1.0 c   user {SUMMARY}" in await describe_thread(store, report.threads[0].thread)


async def test_a_rollout_that_holds_only_a_compacted_past_begins_with_it(store, tmp_path):
    past = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "mend it"}]},
        {"type": "compaction", "encrypted_content": "sealed"},
    ]
    payload = {"message": "", "replacement_history": past}
    line = {"timestamp": "2026-03-01T09:00:00Z", "type": "compacted", "payload": payload}
    report = await bring(store, write(tmp_path / "a.jsonl", line))
    entries = await store.read(report.threads[0].thread)
    assert [entry.source_id and entry.source_id.partition("#")[2] for entry in entries] == [
        "",
        "",
        "2",
    ]
    assert (await describe_thread(store, report.threads[0].thread)).splitlines()[1:] == [
        "1.0 -   user mend it",
        "1.1 -   compaction null",
    ]


async def test_an_agent_in_a_file_of_its_own_is_a_thread_of_its_session(store, tmp_path):
    lines = [
        said("u1", None, "count the teeth", isSidechain=True, agentId="a17"),
        said("a1", "u1", "Forty-two.", isSidechain=True, agentId="a17"),
        {"type": "riddle", "sessionId": "s"},
    ]
    report = await bring(store, write(tmp_path / "agent-a17.jsonl", *lines))
    assert states(report) == [("claude:s/a17", "new", 3, 0)]
    assert report.threads[0].title == "agent a17"


async def test_a_session_is_not_named_after_another(store, tmp_path):
    other = {"type": "summary", "summary": "Another day", "leafUuid": "elsewhere"}
    report = await bring(store, write(tmp_path / "a.jsonl", other, *BEFORE))
    assert report.threads[0].title == ""


async def test_a_name_that_was_given_wins(store, tmp_path):
    names = [
        {"type": "custom-title", "customTitle": "My mill", "sessionId": "s"},
        {"type": "ai-title", "aiTitle": "Mill mending", "sessionId": "s"},
        {"type": "summary", "summary": "A mill", "leafUuid": "a1"},
    ]
    report = await bring(store, write(tmp_path / "a.jsonl", *BEFORE, *names))
    assert report.threads[0].title == "My mill"


async def test_a_call_without_a_result_is_answered_when_the_next_turn_begins(store, tmp_path):
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    lines = [
        said("u1", None, "run it"),
        said("a1", "u1", "") | {"message": {"role": "assistant", "content": [call]}},
    ]
    file = write(tmp_path / "a.jsonl", *lines)
    report = await bring(store, file)
    thread = report.threads[0].thread
    assert (await describe_thread(store, thread)).endswith("1.1 -   function_call {}")
    await bring(store, write(file, *lines, said("u2", "a1", "never mind")))
    assert (await describe_thread(store, thread)).splitlines()[-3:] == [
        "1.1 -   function_call {}",
        "1.1 -   function_call_output aborted",
        "2.0 -   user never mind",
    ]
    assert states(await bring(store, file)) == [("claude:s", "unchanged", 0, 3)]


async def test_a_result_that_comes_later_is_the_calls_own(store, tmp_path):
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    lines = [
        said("u1", None, "run it"),
        said("a1", "u1", "") | {"message": {"role": "assistant", "content": [call]}},
    ]
    file = write(tmp_path / "a.jsonl", *lines)
    await bring(store, file)
    answer = said("u2", "a1", "") | {"message": {"role": "user", "content": [result]}}
    report = await bring(store, write(file, *lines, answer, said("u3", "u2", "thanks")))
    assert (await describe_thread(store, report.threads[0].thread)).splitlines()[-3:] == [
        "1.1 -   function_call {}",
        "1.1 -   function_call_output done",
        "2.0 -   user thanks",
    ]
