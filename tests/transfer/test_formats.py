from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from treadle.store.memory import MemoryStore
from treadle.transfer.importing import detect_format

from .scenes import bring, describe_thread, sample, states, thread_in, write


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("codex", "codex"), ("claude", "claude"), ("openclaw", "openclaw"), ("plain", "jsonl")],
)
def test_a_format_is_known_by_its_content(name, expected):
    assert detect_format(sample(name)) == expected


async def test_a_codex_rollout_becomes_a_thread(store):
    report = await bring(store, sample("codex"))
    (brought,) = report.threads
    assert await describe_thread(store, brought.thread) == snapshot("""\
0.0 -   notice imported from Codex, session 0195f0aa-1111-7abc-8def-000000000001
1.0 c   user [developer: &lt;permissions instructions> Ask before you write. &lt;/permissions i…
1.0 c   user [user: &lt;environment_context>   <cwd>/nowhere/mill</cwd> &lt;/environment_contex…
1.0 -   user why does the mill stop?
1.1 -   reasoning Look at the gears. [gAAAAB-sealed]
1.1 -   function_call {"cmd":"cat gears.txt"}
1.1 -   function_call_output three gears, one broken
1.2 -   custom_tool_call *** Begin Patch *** End Patch
1.2 -   custom_tool_call_output Done!
1.3 -   assistant One gear was broken; I mended it.
2.0 vh  imported_record {"timestamp": "2026-03-01T09:00:16.500Z", "type": "response_item", "pay…
2.0 vh  imported_record {"timestamp": "2026-03-01T09:00:17.500Z", "type": "hologram", "payload"…
2.0 -   user grind the blue corn
2.1 -   function_call {"cmd":"grind"}
2.1 -   function_call_output aborted
3.0 -   user no, stop
3.1 -   assistant Stopped.
3.0 -   rollback to 16
4.0 vh  imported_record {"timestamp": "2026-03-01T09:00:23.500Z", "type": "compacted", "payload…
4.0 -   user is it running?
4.1 -   assistant It runs.\
""")
    assert (report.kept, report.left_out, report.abandoned) == snapshot(
        (
            {"response_item.ghost_snapshot": 1, "hologram": 1, "compacted": 1},
            {
                "turn_context": 1,
                "event_msg.task_started": 1,
                "event_msg.user_message": 1,
                "event_msg.token_count": 1,
                "event_msg.agent_message": 1,
            },
            0,
        )
    )


async def test_a_claude_transcript_becomes_a_thread_and_its_agents_others(store):
    report = await bring(store, sample("claude"))
    assert states(report) == snapshot(
        [
            ("claude:5f0c1a52-0000-4000-8000-00000000000a", "new", 14, 0),
            ("claude:5f0c1a52-0000-4000-8000-00000000000a/a17", "new", 2, 0),
        ]
    )
    main, agent = report.threads
    assert (main.title, agent.title) == ("Mending the mill", "agent a17")
    assert await describe_thread(store, main.thread) == snapshot("""\
0.0 -   notice imported from Claude Code, session 5f0c1a52-0000-4000-8000-00000000000a
1.0 c   user [user: &lt;local-command-caveat>Caveat: run by the user.&lt;/local-command-caveat>]
1.0 -   user [user: &lt;system-reminder> Be brief. &lt;/system-reminder>] | look at both gears …
1.1 -   reasoning Two gears, two reads. [{"type":"thinking","signature":"c2lnbmVk"}]
1.1 -   assistant I read both.
1.1 -   function_call {"file_path":"/nowhere/left.txt"}
1.1 -   function_call {"file_path":"/nowhere/right.txt"}
1.1 -   function_call_output left: fine
1.1 -   function_call_output right: broken
1.2 vh  imported_record {"parentUuid": "p0000000-0000-4000-8000-000000000000", "isSidechain": f…
1.2 -   assistant The right gear is broken.
2.0 -   user paint it green
2.1 -   notice The painter is out of red.
2.1 -   reasoning  [{"type":"redacted_thinking","data":"c2VhbGVk"}]
2.1 -   assistant Green it is.
2.1 vh  imported_record {"type": "mystery", "sessionId": "5f0c1a52-0000-4000-8000-00000000000a"…\
""")
    assert await describe_thread(store, agent.thread) == snapshot("""\
0.0 -   notice imported from Claude Code, session 5f0c1a52-0000-4000-8000-00000000000a/a17
1.0 -   user count the teeth
1.1 -   assistant Forty-two teeth.\
""")
    assert (report.kept, report.left_out, report.abandoned) == snapshot(
        (
            {"attachment.todo_reminder": 1, "mystery": 1},
            {"summary": 1, "file-history-snapshot": 1, "progress": 1, "system": 1},
            2,
        )
    )


async def test_an_openclaw_session_becomes_a_thread_for_each_reset(store):
    report = await bring(store, sample("openclaw"))
    assert states(report) == snapshot(
        [
            ("openclaw:77777777-0000-4000-8000-000000000001", "new", 11, 0),
            ("openclaw:77777777-0000-4000-8000-000000000001/r1", "new", 3, 0),
        ]
    )
    first, second = report.threads
    assert await describe_thread(store, first.thread) == snapshot("""\
0.0 -   notice imported from OpenClaw, session 77777777-0000-4000-8000-000000000001
1.0 -   user how deep is the millpond?
1.1 -   reasoning Measure it. [{"type":"thinking","signature":"c2ln"}]
1.1 -   function_call {"command":"sound"}
1.1 -   function_call_output nine feet
1.2 -   assistant Nine feet.
2.0 c   user Draining was tried and given up.
2.0 -   user stock it with carp
2.1 ch  user It is March.
2.1 vh  imported_record {"type": "custom", "id": "c2", "parentId": "c1", "timestamp": "2026-03-…
2.1 vh  imported_record {"type": "compaction", "id": "k1", "parentId": "c2", "timestamp": "2026…
2.1 -   assistant Three carp.
2.1 vh  imported_record {"type": "message", "id": "m9", "parentId": "m8", "timestamp": "2026-03…\
""")
    assert await describe_thread(store, second.thread) == snapshot("""\
0.0 -   notice imported from OpenClaw, session 77777777-0000-4000-8000-000000000001/r1
1.0 vh  imported_record {"type": "reset", "id": "r1", "parentId": "m9", "timestamp": "2026-03-0…
1.0 -   user a new day
1.1 -   assistant Good morning.\
""")
    assert (report.kept, report.left_out, report.abandoned) == snapshot(
        (
            {"custom": 1, "compaction": 1, "message.oracle": 1, "reset": 1},
            {"model_change": 1, "session_info": 1},
            2,
        )
    )


async def test_plain_jsonl_becomes_a_thread_for_each_name(store):
    report = await bring(store, sample("plain"))
    assert states(report) == snapshot([("jsonl:standup", "new", 6, 0), ("jsonl:pond", "new", 2, 0)])
    assert await describe_thread(store, thread_in(report, "standup").thread) == snapshot("""\
0.0 -   notice imported from plain JSONL
1.0 -   notice You are a pirate.
1.0 -   user what broke last night?
1.1 -   assistant The night mill.
1.1 -   function_call_output ok
2.0 -   user see
2.0 vh  imported_record {"type": "video", "url": "x"}
2.0 vh  imported_record {"thread": "standup", "id": "s6", "weather": "rain"}\
""")
    assert await describe_thread(store, thread_in(report, "pond").thread) == snapshot("""\
0.0 -   notice imported from plain JSONL
1.0 -   user any fish?
1.1 -   assistant Three carp.\
""")
    assert report.kept == snapshot({"user": 1, "without a role": 1})


async def test_a_record_of_an_unknown_kind_is_kept_wherever_it_stands(store, tmp_path):
    said = {"type": "user", "sessionId": "s1", "message": {"role": "user", "content": "hello"}}
    file = write(
        tmp_path / "a.jsonl",
        {"type": "novelty", "uuid": "n1", "parentUuid": None, "sessionId": "s1"},
        {**said, "uuid": "u1", "parentUuid": "n1"},
        {"type": "novelty", "uuid": "n2", "sessionId": "s1"},
    )
    report = await bring(store, file, format="claude")
    assert (report.kept, report.abandoned) == ({"novelty": 2}, 0)
    assert await describe_thread(store, report.threads[0].thread) == snapshot("""\
0.0 -   notice imported from Claude Code, session s1
1.0 vh  imported_record {"type": "novelty", "uuid": "n1", "parentUuid": null, "sessionId": "s1"}
1.0 -   user hello
1.0 vh  imported_record {"type": "novelty", "uuid": "n2", "sessionId": "s1"}\
""")
