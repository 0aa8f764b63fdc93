from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.pictures import picture

from .scripts import call, scripted, shell
from .terminal import SCRIPT, Treadle
from .test_terminal import screen, without_colour

USAGE = {"input": 1000, "cached": 800, "output": 10}
VARYING = re.compile(r"(thr|turn)_[0-9a-f-]{36}")


def inputs(treadle: Treadle, thread: str = "last") -> list[str]:
    """What the person said, in order."""
    entries = treadle("show", thread, "--json").json_lines
    said = [e["item"] for e in entries if e["kind"] == "item" and not e["flags"]]
    return [i["content"][0]["text"] for i in said if i.get("role") == "user"]


def steady(line: dict[str, Any]) -> dict[str, Any]:
    """An event without what differs from run to run."""
    text = json.dumps({**line, "seconds": 0} if "seconds" in line else line)
    text = re.sub(r"(Chunk ID: |Wall time: )[\w.]+", r"\1_", VARYING.sub(r"\1_1", text))
    text = re.sub(r"(msg|fc_call|call)_[0-9a-f]{16}", r"\1", text)
    text = re.sub(r"scripted:[^\"]+", "scripted:SCRIPT", text)
    found: dict[str, Any] = json.loads(text)
    return {**found, "size": 0, "shared": 0} if "size" in found else found


def test_the_answer_is_on_standard_output_and_the_work_on_standard_error(treadle):
    model = scripted(
        treadle, {"text": "Looking.", "calls": [shell("echo hi")]}, {"text": "It says hi.\n"}
    )
    done = treadle("exec", "what does it say?", "--model", model)
    assert done.text == "It says hi.\n"
    first, *work = done.err.splitlines()
    assert VARYING.sub("THREAD", first) == (
        f"THREAD · ~ · {model} · workspace-write, no network · approval never"
    )
    assert [re.sub(r"\d+\.\d", "0.0", line) for line in work] == [
        "Looking.",
        "• echo hi",
        "  ok · 0.0 s",
    ]


def test_events_are_json_lines(treadle):
    model = scripted(
        treadle, {"calls": [shell("true")], "usage": USAGE}, {"text": "Done.", "usage": USAGE}
    )
    lines = treadle("exec", "go", "--json", "--model", model).json_lines
    assert [steady(line) for line in lines if line["type"] != "usage.reported"] == snapshot(
        [
            {"type": "thread.started", "thread_id": "thr_1"},
            {
                "type": "turn.started",
                "thread": "thr_1",
                "turn": "turn_1",
                "number": 1,
                "model": "scripted:SCRIPT",
                "harness": "treadle",
                "sandbox": "workspace-write",
                "harness_reason": "auto_treadle",
                "profile": "",
                "transport": "https+sse",
            },
            {"type": "step.started", "step": 1, "size": 0, "shared": 0, "reason": "start"},
            {
                "type": "item.completed",
                "seq": 7,
                "item": {
                    "type": "function_call",
                    "id": "fc_call_0",
                    "name": "exec_command",
                    "arguments": '{"cmd":"true","login":false}',
                    "call_id": "call_0",
                },
            },
            {
                "type": "tool.started",
                "call_id": "call_0",
                "name": "exec_command",
                "arguments": '{"cmd":"true","login":false}',
            },
            {
                "type": "tool.finished",
                "call_id": "call_0",
                "name": "exec_command",
                "success": True,
                "seconds": 0,
                "output": """\
Chunk ID: _
Wall time: _ seconds
Process exited with code 0
Original token count: 0
Output:
""",
            },
            {
                "type": "item.completed",
                "seq": 9,
                "item": {
                    "type": "function_call_output",
                    "call_id": "call_0",
                    "output": """\
Chunk ID: _
Wall time: _ seconds
Process exited with code 0
Original token count: 0
Output:
""",
                },
            },
            {"type": "step.started", "step": 2, "size": 0, "shared": 0, "reason": None},
            {"type": "text.delta", "text": "Done."},
            {
                "type": "item.completed",
                "seq": 11,
                "item": {
                    "type": "message",
                    "id": "msg",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Done."}],
                },
            },
            {
                "type": "turn.completed",
                "turn": "turn_1",
                "status": "completed",
                "text": "Done.",
                "refused": False,
                "usage": {
                    "input_tokens": 2000,
                    "cached_input_tokens": 1600,
                    "output_tokens": 20,
                    "reasoning_output_tokens": 0,
                    "total_tokens": 2020,
                },
                "cost": {"amounts": {}, "requests": 2, "unpriced": 2},
                "error": None,
                "tried": [],
                "limit": None,
            },
        ]
    )


def test_the_input_can_be_piped_and_follows_the_prompt(treadle):
    model = scripted(treadle, {"text": "Read."})
    treadle("exec", "--model", model, stdin=b"from a pipe")
    assert inputs(treadle) == ["from a pipe"]
    treadle("exec", "-", "--model", model, stdin=b"dashed")
    assert inputs(treadle) == ["dashed"]
    treadle("exec", "review", "--model", model, stdin=b"+ a line\n")
    assert inputs(treadle) == ["review\n\n<stdin>\n+ a line\n</stdin>"]
    treadle("exec", "alone", "--model", model)
    assert inputs(treadle) == ["alone"]


def test_nothing_to_say_is_a_usage_error(treadle):
    said = treadle.refused("exec", "--model", scripted(treadle), code=2)
    assert "there is no PROMPT, and standard input is empty;" in said
    assert treadle("threads", "--json").json == []


def test_a_thread_goes_on_by_name_or_as_the_last_one(treadle):
    model = scripted(treadle, {"text": "Yes."})
    treadle("exec", "one", "--model", model)
    first = treadle("threads", "--json").json[0]["id"]
    treadle("exec", "another", "--model", model)
    treadle("exec", "two", "--resume", first)
    assert inputs(treadle, first) == ["one", "two"]
    treadle("exec", "three", "--last")
    assert inputs(treadle, first) == ["one", "two", "three"]
    said = treadle.refused("exec", "four", "--last", "--resume", first, code=2)
    assert "--last and --resume both name a thread" in said


def test_a_full_thread_that_goes_on_is_compacted_first(treadle):
    treadle.home.mkdir(exist_ok=True)
    (treadle.home / "models.toml").write_text('[models."/"]\nauto_compact_token_limit = 9000\n')
    words = "many words " * 1_000
    first = scripted(treadle, {"text": words, "usage": {"input": 9_500}}, name="one.jsonl")
    treadle("exec", "one", "--model", first)
    then = scripted(treadle, {"text": "A summary."}, {"text": "Fresh."}, name="two.jsonl")
    done = treadle("exec", "two", "--last", "--json", "--model", then)
    told = [line["type"] for line in done.json_lines]
    assert told.count("compaction.finished") == 1
    assert done.json_lines[-1]["text"] == "Fresh."


def test_a_turn_that_fails_ends_with_1_and_says_why(treadle):
    error = {"status": 400, "code": "bad", "message": "no such thing"}
    model = scripted(treadle, {"error": error})
    done = treadle.attempt("exec", "go", "--model", model)
    assert (done.code, done.out) == (1, b"")
    assert "no such thing" in done.err
    assert "Traceback" not in done.err


def test_a_turn_that_cannot_begin_leaves_no_thread(treadle):
    done = treadle.attempt("exec", "go", "--json")
    assert done.code == 1
    assert [line["type"] for line in done.json_lines] == ["error"]
    assert "no key for the provider 'openai'; run `treadle auth add openai`" in done.err
    assert treadle("threads", "--json").json == []


def test_a_schema_shapes_the_request(treadle, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{ "type": "object" }')
    model = scripted(treadle, {"text": '{"ok":true}'})
    done = treadle("exec", "is it ok?", "--output-schema", str(schema), "--model", model)
    assert done.json == {"ok": True}
    body = treadle("prompt", "--thread", "last", "--json").json
    assert body["text"]["format"]["schema"] == {"type": "object"}
    model = scripted(treadle, {"text": "Not JSON.", "times": 0})
    failed = treadle.attempt("exec", "x", "--output-schema", str(schema), "--model", model)
    assert (failed.code, "the answer does not fit its schema" in failed.err) == (1, True)
    schema.write_text("[]")
    said = treadle.refused("exec", "x", "--output-schema", str(schema), "--model", model)
    assert "is not a JSON schema" in said


def test_the_last_message_goes_to_a_file_as_it_is(treadle, tmp_path):
    model = scripted(treadle, {"text": "a \x1b[31mred\x1b[0m word"})
    done = treadle("exec", "go", "-o", str(tmp_path / "last.md"), "--model", model)
    assert (tmp_path / "last.md").read_text() == "a \x1b[31mred\x1b[0m word"
    assert done.text == "a \\x1b[31mred\\x1b[0m word\n"


def test_usage_is_told_with_a_cost_only_where_a_price_is_known(treadle):
    model = scripted(treadle, {"text": "Done.", "usage": USAGE})
    told = treadle("exec", "go", "--show-usage", "--model", model).err.splitlines()[-1]
    assert told == "1,000 tokens in, 10 out · 80% cached · context 0% of 258,400"
    (treadle.home / "config.toml").write_text(
        f'[prices."{model}"]\ninput = 2.0\ncached_input = 0.5\noutput = 8.0\n'
    )
    told = treadle("exec", "go", "--show-usage", "--model", model).err.splitlines()[-1]
    assert told.endswith(" · $0.0009")


def test_images_are_shown_to_the_model(treadle, tmp_path):
    png = tmp_path / "dot.png"
    png.write_bytes(picture())
    model = scripted(treadle, {"text": "A dot."})
    treadle("exec", "what is it?", "--image", str(png), "--model", model)
    entries = treadle("show", "last", "--json").json_lines
    said = next(e["item"] for e in entries if e["kind"] == "item" and not e["flags"])
    assert [part["type"] for part in said["content"]] == [
        "input_text",
        "input_text",
        "input_image",
        "input_text",
    ]


def test_without_a_terminal_nobody_is_asked(treadle):
    escalated = shell("true", sandbox_permissions="require_escalated", justification="May I?")
    model = scripted(treadle, {"calls": [escalated]}, {"text": "Then not."})
    done = treadle("exec", "go", "--approval", "on-request", "--model", model)
    assert "! refused, because there is no terminal to ask on: " in done.err
    assert "nobody is there to approve it" in treadle("show", "last").text
    assert done.text == "Then not.\n"


def test_the_sandbox_holds_unless_told_otherwise_and_its_absence_is_said(treadle):
    written = treadle.project / "written"
    model = scripted(treadle, {"calls": [shell("touch written")]}, {"text": "Tried."})
    treadle("exec", "go", "--sandbox", "read-only", "--model", model)
    assert not written.exists()
    treadle("exec", "go", "--model", model)
    assert written.exists()
    written.unlink()
    done = treadle("exec", "go", "--yolo", "--model", model)
    assert written.exists()
    assert "NO SANDBOX: commands can do everything that you can · approval never" in done.err
    said = treadle.refused("exec", "go", "--yolo", "--sandbox", "read-only", code=2)
    assert "--yolo already sets" in said


def test_directories_can_be_added(treadle):
    # Neither the workspace nor /tmp, which commands may write.
    outside = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        model = scripted(treadle, {"calls": [shell(f"touch {outside}/file")]}, {"text": "Tried."})
        treadle("exec", "go", "--model", model)
        assert list(outside.iterdir()) == []
        treadle("exec", "go", "--add-dir", str(outside), "--model", model)
        assert [path.name for path in outside.iterdir()] == ["file"]
    finally:
        shutil.rmtree(outside)


def test_a_terminal_sees_the_model_write_and_can_approve(treadle):
    escalated = shell("echo out", sandbox_permissions="require_escalated", justification="May I?")
    model = scripted(
        treadle, {"text": "Asking.", "calls": [escalated]}, {"text": "Thank \x1b[2Jyou."}
    )
    with screen(treadle, "exec", "go", "--model", model) as terminal:
        terminal.until(b"(y)es once")
        terminal.type(b"what\r")
        terminal.until(b"none of the answers")
        terminal.type(b"y\r")
        code, text = terminal.end()
    assert code == 0
    plain = without_colour(text)
    assert "? run OUTSIDE the sandbox: " in plain
    assert "Thank \\x1b[2Jyou." in plain
    assert "Process exited with code 0" in treadle("show", "last").text


def started(treadle: Treadle, model: str, *args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SCRIPT, "exec", "go", "--json", "--model", model, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=treadle.env,
        cwd=treadle.project,
    )


def heard(process: subprocess.Popen[bytes], kind: str) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["type"] == kind:
            return event
    raise AssertionError(f"no {kind}")


STALLED = {"text": "never", "delay": 600}


@pytest.mark.parametrize(
    ("moment", "answers"),
    [
        ("thread.started", [STALLED]),
        ("turn.started", [STALLED]),
        ("step.started", [STALLED]),
        ("text.delta", [{"text": "Half a", "stall": {"events": 5}}]),
        ("tool.started", [{"calls": [shell("sleep 600")]}]),
        ("tool.progress", [{"calls": [shell("echo begun; sleep 600")]}]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ctrl_c_ends_the_turn_with_everything_in_its_place(treadle, moment, answers):
    model = scripted(treadle, *answers)
    with started(treadle, model) as process:
        heard(process, moment)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, b"Traceback" in err) == (130, False), err
    if moment == "thread.started":
        return
    assert json.loads(out.splitlines()[-1])["status"] == "interrupted"
    entries = treadle("show", "last", "--all", "--json").json_lines
    items = [e["item"] for e in entries if e["kind"] == "item"]
    calls = [i["call_id"] for i in items if i["type"] == "function_call"]
    assert calls == [i["call_id"] for i in items if i["type"] == "function_call_output"]
    assert treadle(
        "exec", "again", "--last", "--model", scripted(treadle, {"text": "Back."})
    ).text == ("Back.\n")


def test_ctrl_c_twice_leaves_at_once_and_leaves_no_process(treadle):
    marker = treadle.home.parent / "alive"
    os.mkfifo(marker)
    held = shell(f"exec 9>{marker}; trap '' INT TERM; echo begun; while :; do sleep 1; done")
    model = scripted(treadle, {"calls": [held]})
    with started(treadle, model, "--yolo") as process:
        reader = os.open(marker, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        heard(process, "tool.progress")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 130
    # The end of the pipe: whoever held it is gone.
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_the_answer_to_an_interview_reaches_the_model(treadle):
    option = {"label": "Red", "description": "a colour"}
    question = {"id": "q", "header": "Hue", "question": "Which?", "options": [option, option]}
    asks = call("request_user_input", questions=[question])
    model = scripted(treadle, {"calls": [asks]}, {"text": "Fine."})
    with screen(treadle, "exec", "go", "--model", model) as terminal:
        terminal.until(b"or nothing to dismiss")
        terminal.type(b"1\r")
        code, _ = terminal.end()
    assert code == 0
    assert '"Red"' in treadle("show", "last").text


def test_a_missing_directory_is_named(treadle, tmp_path):
    model = scripted(treadle, {"text": "x"})
    done = treadle.attempt("exec", "go", "-o", str(tmp_path / "no" / "file"), "--model", model)
    assert (done.code, done.out) == (2, b"")
    assert f"there is no directory {str(tmp_path / 'no')!r} for --output;" in done.err


def test_a_schema_that_is_a_link_to_something_hidden_is_not_sent(treadle):
    (treadle.home / "auth.json").write_text('{"type": "secret"}')
    (treadle.project / "schema.json").symlink_to(treadle.home / "auth.json")
    said = treadle.refused("exec", "x", "--output-schema", "schema.json")
    assert "'schema.json' cannot be read: it is hidden by the sandbox policy" in said


def test_a_refusal_is_printed_as_the_answer(treadle):
    refusal = {
        "type": "response.output_item.done",
        "item": {
            "type": "message",
            "id": "msg_9",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "I will not do that."}],
        },
    }
    model = scripted(treadle, {"events": [refusal], "times": 0})
    assert treadle("exec", "do harm", "--model", model).text == "I will not do that.\n"
    ended = treadle("exec", "do harm", "--model", model, "--json").json_lines[-1]
    assert (ended["text"], ended["refused"]) == ("I will not do that.", True)


def test_a_turn_without_an_answer_is_told_from_one_with_nothing_to_say(treadle):
    silent = treadle("exec", "hello", "--model", scripted(treadle, {"text": ""}))
    assert silent.text == ""
    assert silent.err.splitlines()[1:] == ["the model ended the turn without an answer"]
    meant = treadle("exec", "hello", "--model", scripted(treadle, {"text": "NO_REPLY"}))
    assert (meant.text, meant.err.splitlines()[1:]) == ("", [])
