from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec import UNSET, Raw

from tests.harness.scenes import call, hear, of, open_thread, scripted
from treadle.core.errors import HookFailed
from treadle.harness.events import ToolFinished
from treadle.hooks import CommandHook, HookAnswer, Hooks
from treadle.hooks.common_form import encode_event, parse_output, refusal
from treadle.hooks.payloads import (
    COMMON_EVENTS,
    AfterCompaction,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    OnThreadStart,
    OnTurnEnd,
    Payload,
    ToolResultReady,
)
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

CALL: dict[str, Any] = {"thread": "thr", "turn": 2, "step": 1, "cwd": "/w", "call_id": "c"}


def before(tool: str = "echo", arguments: str = '{"text":"a"}') -> BeforeToolCall:
    return BeforeToolCall(**CALL, tool=tool, arguments=arguments)


READY = ToolResultReady(**CALL, tool="echo", output="out", success=True, arguments="{}")
PROMPT = BeforePromptBuild(thread="thr", cwd="/w", model="m", prompt="hello")
STARTED = OnThreadStart(thread="thr", cwd="/w", model="m", source="startup")
ENDED = OnTurnEnd(thread="thr", turn="turn_1", status="completed", text="bye", usage=Raw(b"{}"))
COMPACTING = BeforeCompaction(thread="thr", tokens=9, trigger="overflow")
COMPACTED = AfterCompaction(thread="thr", tokens_before=9, tokens_after=1)

EVERY: dict[str, Payload] = {
    "SessionStart": STARTED,
    "UserPromptSubmit": PROMPT,
    "PreToolUse": before(),
    "PostToolUse": READY,
    "PreCompact": COMPACTING,
    "PostCompact": COMPACTED,
    "Stop": ENDED,
}


def test_every_event_is_told_in_the_common_fields():
    assert {name: type(payload) for name, payload in EVERY.items()} == COMMON_EVENTS
    told = [json.loads(encode_event(payload)) for payload in EVERY.values()]
    assert [each.pop("hook_event_name") for each in told] == list(EVERY)
    for each in told:
        common = [each.pop(key) for key in ("session_id", "transcript_path", "permission_mode")]
        assert common == ["thr", None, "default"]
    assert told == snapshot(
        [
            {"cwd": "/w", "model": "m", "source": "startup"},
            {"cwd": "/w", "model": "m", "prompt": "hello"},
            {
                "cwd": "/w",
                "turn_id": "2",
                "tool_name": "echo",
                "tool_input": {"text": "a"},
                "tool_use_id": "c",
            },
            {
                "cwd": "/w",
                "turn_id": "2",
                "tool_name": "echo",
                "tool_input": {},
                "tool_use_id": "c",
                "tool_response": {"output": "out", "success": True},
            },
            {"trigger": "auto"},
            {},
            {"turn_id": "turn_1", "stop_hook_active": False, "last_assistant_message": "bye"},
        ]
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "name", "given"),
    [
        ("exec_command", '{"cmd":"ls","tty":true}', "Bash", {"command": "ls", "tty": True}),
        ("shell_command", '{"command":"ls -l"}', "Bash", {"command": "ls -l"}),
        ("shell", '{"command":["bash","-lc","ls | wc"]}', "Bash", {"command": "ls | wc"}),
        ("shell", '{"command":["ls","a b"]}', "Bash", {"command": "ls 'a b'"}),
        ("shell", "{}", "Bash", {"command": ""}),
        ("apply_patch", "*** Begin Patch", "Edit", {"command": "*** Begin Patch"}),
        ("apply_patch", '{"input":"***"}', "Edit", {"command": "***"}),
        ("free", "raw", "free", {"input": "raw"}),
        ("mail.send", "", "mail.send", {}),
    ],
)
def test_our_tools_are_told_as_others_know_them(tool, arguments, name, given):
    told = json.loads(encode_event(before(tool, arguments)))
    assert (told["tool_name"], told["tool_input"]) == (name, given)


@pytest.mark.parametrize(
    ("tool", "arguments", "updated", "parameters"),
    [
        ("echo", "{}", {"text": "b"}, {"text": "b"}),
        ("echo", "{}", {"command": "b"}, {"command": "b"}),
        ("exec_command", '{"cmd":"ls"}', {"command": "ls -l"}, {"cmd": "ls -l"}),
        ("exec_command", '{"cmd":"ls"}', {"tty": True}, {"tty": True}),
        (
            "shell",
            '{"command":["bash","-lc","ls"]}',
            {"command": "ls -l"},
            {"command": ["bash", "-lc", "ls -l"]},
        ),
        ("shell", '{"command":["ls"]}', {"command": "ls 'a b'"}, {"command": ["ls", "a b"]}),
        ("apply_patch", "old", {"command": "new"}, {"input": "new"}),
    ],
)
def test_changed_parameters_come_back_in_the_tools_own_words(tool, arguments, updated, parameters):
    out = json.dumps({"hookSpecificOutput": {"updatedInput": updated}}).encode()
    answer = parse_output(out, before(tool, arguments))
    assert answer is not None
    assert answer.parameters is not UNSET
    assert {key: json.loads(bytes(raw)) for key, raw in answer.parameters.items()} == parameters


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({}, HookAnswer()),
        ({"decision": "approve"}, HookAnswer()),
        ({"decision": "block", "reason": "no"}, HookAnswer(block="no")),
        ({"decision": "deny"}, HookAnswer(block="a hook said no")),
        ({"continue": False, "stopReason": "enough"}, HookAnswer(block="enough")),
        ({"continue": False}, HookAnswer(block="a hook said stop")),
        ({"continue": True, "suppressOutput": True, "systemMessage": "psst"}, HookAnswer()),
        ({"hookSpecificOutput": {"permissionDecision": "allow"}}, HookAnswer()),
        (
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "never",
                }
            },
            HookAnswer(block="never"),
        ),
        (
            {"hookSpecificOutput": {"permissionDecision": "ask"}},
            HookAnswer(block="a hook does not allow it"),
        ),
    ],
)
def test_what_is_said_before_a_call_is_what_it_means(said, answer):
    assert parse_output(json.dumps(said).encode(), before()) == answer


@pytest.mark.parametrize(
    ("payload", "out", "answer"),
    [
        (PROMPT, b"It rains.\n", HookAnswer(context="It rains.")),
        (STARTED, b"Mind the gap.", HookAnswer(context="Mind the gap.")),
        (STARTED, b'{"hookSpecificOutput":{"additionalContext":"x"}}', HookAnswer(context="x")),
        (PROMPT, b'{"decision":"block","reason":"no"}', HookAnswer(block="no")),
        (before(), b"plain words\n", None),
        (ENDED, b"plain words\n", None),
        (READY, b"{}", None),
        (READY, b'{"decision":"block","reason":"lint: 1"}', HookAnswer(output="out\n\nlint: 1")),
        (
            READY,
            b'{"hookSpecificOutput":{"additionalContext":"fyi"}}',
            HookAnswer(output="out\n\nfyi"),
        ),
        (READY, b'{"hookSpecificOutput":{"updatedInput":{"a":1}}}', None),
        (PROMPT, b'{"hookSpecificOutput":{"updatedInput":{"a":1}}}', HookAnswer()),
    ],
)
def test_what_is_said_elsewhere_is_what_it_can_mean_there(payload, out, answer):
    assert parse_output(out, payload) == answer


def test_a_no_to_a_call_that_has_run_is_a_comment_on_it():
    assert refusal("badly formatted", READY) == HookAnswer(output="out\n\nbadly formatted")
    assert refusal("no", PROMPT) == HookAnswer(block="no")


@pytest.mark.parametrize("out", [b"{", b'{"decision":"perhaps"}', b'{"continue":1}'])
def test_output_that_nobody_understands_is_a_failure(out):
    with pytest.raises(HookFailed, match="no hook output"):
        parse_output(out, before())


def python(program: str) -> CommandHook:
    return CommandHook((sys.executable, "-c", f"import json, sys\n{program}"), common=True)


async def test_a_command_in_the_common_form_changes_blocks_and_comments(tmp_path):
    @tool
    async def echo(text: str, times: int = 1) -> str:
        """HookAnswer it again."""
        return text * times

    change = python(
        "event = json.load(sys.stdin)\n"
        "if event['tool_input']['text'] == 'forbidden':\n"
        "    sys.exit('no') if event['hook_event_name'] != 'PreToolUse' else None\n"
        "    print('not that', file=sys.stderr); sys.exit(2)\n"
        "print(json.dumps({'hookSpecificOutput': {'updatedInput': {'times': 2}}}))"
    )
    lint = python("print('lint: ' + json.load(sys.stdin)['tool_response']['output'],"
                  " file=sys.stderr); sys.exit(2)")  # fmt: skip
    hooks = Hooks()
    hooks.on(BeforeToolCall, change)
    hooks.on(ToolResultReady, lint)
    calls = (call("echo", text="forbidden"), call("echo", text="fine"))
    model = scripted(Answer(calls=calls), Answer(text="ok"))
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
    assert [event.output for event in of(events, ToolFinished)] == [
        "not that",
        "finefine\n\nlint: finefine",
    ]


async def test_nonsense_of_a_command_names_the_command():
    with pytest.raises(HookFailed, match=r"hook '.*' answered what is no hook answer: it answered"):
        await python("print('{')")(before())


def test_the_same_command_is_the_same_hook_whatever_its_time():
    assert CommandHook(["a", "b"], timeout=1) == CommandHook(("a", "b"), timeout=2)
    assert CommandHook(("a",), common=True) != CommandHook(("a",))
