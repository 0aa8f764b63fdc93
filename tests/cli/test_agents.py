from __future__ import annotations

import json
import re
from typing import Any

from treadle.cli.activity import activity
from treadle.harness.events import AgentReported, TextDelta, ToolStarted, TurnCompleted

from .scripts import call, scripted, shell
from .terminal import Treadle
from .test_chat import gate, talk
from .test_exec import inputs

ID = re.compile(r"thr_[0-9a-f-]{36}")


def spawns(message: str, name: str) -> dict[str, Any]:
    return call("spawn_agent", message=message, task_name=name)


def test_a_message_is_left_for_a_thread_and_read_without_a_prompt(treadle: Treadle):
    model = scripted(
        treadle, {"when": "hi", "text": "Hello."}, {"when": "look twice", "text": "I looked twice."}
    )
    treadle("exec", "hi", "--model", model)
    left = treadle("send", "last", "look twice")
    assert ID.sub("THREAD", left.text) == "sent to THREAD\n"
    assert treadle("exec", "--last").text == "I looked twice.\n"
    assert inputs(treadle) == ["hi", "look twice"]
    assert "nothing waits for thread" in treadle.refused("exec", "--last")


def test_a_message_of_another_thread_says_so_and_is_left_once(treadle: Treadle):
    sender, reader = treadle("new").text.strip(), treadle("new").text.strip()
    sent = [
        treadle("send", reader, "-", "--from", sender, "--channel", "ci", "--key", "k", "--json",
             stdin=b"all green").json
        for _ in range(2)
    ]  # fmt: skip
    assert sent == [{"thread": reader, "number": 1, "key": "k"}] * 2
    model = scripted(treadle, {"when": "all green", "text": "Good."})
    assert treadle("exec", "--resume", reader, "--model", model).text == "Good.\n"
    (said,) = [e for e in treadle("show", reader, "--json").json_lines if e.get("provenance")]
    assert said["provenance"] == {
        "kind": "inter_session",
        "origin_thread": sender,
        "source_thread": sender,
        "source_channel": "ci",
        "source_tool": "sessions_send",
    }


def test_a_message_needs_words_and_a_reader(treadle: Treadle):
    thread = treadle("new").text.strip()
    assert "there is no TEXT to send;" in treadle.refused("send", thread, " ", code=2)
    assert "no thread 'thr_none'" in treadle.refused("send", "thr_none", "hello")


def test_exec_waits_for_agents_and_prints_the_last_answer_only(treadle: Treadle):
    wait = gate(treadle, "agent")
    model = scripted(
        treadle,
        {"when": "read it", "calls": [shell(f"cat {wait}")]},
        {"when": "from the gate", "text": "It says enough."},
        {"when": "go", "calls": [spawns("read it", "reader")]},
        {
            "when": "agent_id",
            "text": "It is being read.",
            "calls": [shell(f"echo from the gate > {wait}")],
        },
        {"when": "exited with code", "text": "Somebody reads."},
        {"when": "It says", "text": "All known."},
        {"when": "It says", "text": "All known."},
    )
    done = treadle("exec", "go", "--model", model, "--yolo")
    assert done.text == "All known.\n"
    assert f"• [reader] cat {wait}" in done.err.splitlines()


def test_what_agents_do_is_part_of_the_events(treadle: Treadle):
    model = scripted(
        treadle,
        {"when": "look around", "text": "Nothing here."},
        {"when": "go", "calls": [spawns("look around", "scout")]},
        {"when": "agent_id", "calls": [call("wait_agent")]},
        {"text": "Over."},
    )
    lines = treadle("exec", "go", "--model", model, "--json").json_lines
    reports = [line for line in lines if line["type"] == "agent.reported"]
    assert {report["nickname"] for report in reports} == {"scout"}
    assert [r["event"]["text"] for r in reports if r["event"]["type"] == "turn.completed"] == [
        "Nothing here."
    ]
    assert (lines[-1]["type"], lines[-1]["text"]) == ("turn.completed", "Over.")
    told = treadle("prompt", "next", "--thread", "last").lines
    assert "<subagents>" in "".join(told)
    for thread in ("last", reports[0]["thread"]):
        rebuilt = treadle("cache", thread, "--rebuild", "--check").lines[-1]
        assert rebuilt.endswith("from the log; every byte is the same")


def test_nobody_is_there_to_approve_what_an_agent_wants(treadle: Treadle):
    model = scripted(
        treadle,
        {"when": "do it", "calls": [shell("touch made")]},
        {"when": "nobody is there", "text": "I may not."},
        {"when": "go", "calls": [spawns("do it", "doer")]},
        {"when": "agent_id", "calls": [call("wait_agent")]},
        {"text": "It may not."},
    )
    done = treadle("exec", "go", "--model", model, "--approval", "untrusted")
    assert done.text == "It may not.\n"
    assert "! refused, because there is no terminal to ask on: " in done.err
    assert not (treadle.project / "made").exists()


def test_agents_can_be_turned_off(treadle: Treadle):
    (treadle.home / "config.toml").write_text("[agents]\nenabled = false\n")
    model = scripted(treadle, {"calls": [spawns("look", "scout")]}, {"text": "Alone."})
    done = treadle("exec", "go", "--model", model, "--json")
    (finished,) = [line for line in done.json_lines if line["type"] == "tool.finished"]
    assert finished["output"] == "unsupported call: spawn_agent"
    body = json.loads(treadle("prompt", "go", "--model", model, "--json").out)
    assert "spawn_agent" not in {tool.get("name") for tool in body["tools"]}


def test_a_conversation_waits_for_agents_and_asks_what_they_ask(treadle: Treadle):
    model = scripted(
        treadle,
        {"when": "do it", "calls": [shell("touch made")]},
        {"when": "exited with code 0", "text": "It is made."},
        {"when": "go", "calls": [spawns("do it", "doer")]},
        {"when": "agent_id", "text": "On its way."},
        {"when": "It is made", "text": "Well done."},
    )
    with talk(treadle, "chat", "--model", model, "--approval", "untrusted", "--sandbox",
              "danger-full-access") as person:  # fmt: skip
        person.say("go")
        person.expect("[doer] asks")
        person.expect("touch made")
        person.expect("(y)es once")
        person.answer("y")
        person.expect("Well done.")
        person.leave()
    assert (treadle.project / "made").exists()


def test_agents_are_told_in_lines_that_name_them():
    def line(event: Any) -> str | None:
        return activity(AgentReported(thread="thr_1", nickname="a\x1b[31m", event=event))

    started = ToolStarted(call_id="c", name="exec_command", arguments='{"cmd":"ls"}')
    assert line(TextDelta("words")) is None
    assert line(TurnCompleted(turn="t", status="failed", error="no\nroom")) is not None
    assert "\x1b" not in (line(started) or "")
    nested = AgentReported(thread="thr_2", nickname="b", event=started)
    told = activity(AgentReported(thread="thr_1", nickname="a", event=nested))
    assert told == "• [a] [b] ls"
